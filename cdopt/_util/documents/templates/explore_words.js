// Loads from sliders, numbers as text, and the sentence that describes what is seen.
const CdoptLoad = (() => {
  const { load } = CDOPT;

  // Unit vector of gravity that leans by the angles behind the first slider.
  function direction(values) {
    const lean = (values[1] * Math.PI) / 180;
    if (values.length < 3) return [Math.sin(lean), -Math.cos(lean)];
    const turn = (values[2] * Math.PI) / 180;
    return [Math.sin(lean) * Math.cos(turn), Math.sin(lean) * Math.sin(turn), -Math.cos(lean)];
  }

  // F̃ at the values of the sliders.
  function at(values) {
    const rest = load.kind === 'weight' ? values.slice(1)
      : load.kind === 'gravity' ? direction(values).map((x) => x * load.gravity) : [];
    return load.base.map((x, j) => values[0] * rest.reduce((s, y, d) => s + y * load.ways[d][j], x));
  }

  return { at, direction };
})();

const CdoptWords = (() => {
  const NUMBERS = ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'];
  const capital = (text) => text[0].toUpperCase() + text.slice(1);
  const count = (n) => NUMBERS[n] || String(n);
  const many = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;

  // Forces in the unit in which the load at the start is of order one: 12 µN, 3.4 kN.
  const PREFIXES = { '-4': 'p', '-3': 'n', '-2': 'µ', '-1': 'm', 0: '', 1: 'k', 2: 'M', 3: 'G' };
  const usual = Math.floor(Math.log10(CdoptSolver.largest(CdoptLoad.at(CDOPT.load.start)) || 1) / 3);
  const third = Math.min(Math.max(usual, -4), 3);
  const unit = `${PREFIXES[third]}N`;

  function number(x) {
    if (x === Infinity) return '∞';
    if (Math.abs(x) < 1e-9) return '0';
    if (Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5) {
      return x.toLocaleString('en', { maximumSignificantDigits: 4 });
    }
    const [digits, exponent] = x.toExponential(2).split('e');
    return `${Number(digits)}e${Number(exponent)}`;
  }

  const IDLE = 2e-7;  // of the largest force: no force, to the eye
  const amount = (x, top = 0) => number(x <= IDLE * top ? 0 : x / 1000 ** third);
  const force = (x, top = 0) => `${amount(x, top)} ${unit}`;

  function range(low, high, top) {
    if (high === Infinity) return `${force(low, top)} or more, no upper bound`;
    if (high - low <= 1e-9 * top) return 'determined';
    return `${amount(low, top)} to ${force(high)}`;
  }

  // One or two sentences; `found` is an answer of CdoptForces, `top` its largest force.
  function summary(found, top) {
    const n = CDOPT.names.length;
    if (!found.feasible) {
      return CDOPT.load.kind === 'weight' ? `No admissible forces: this load tips the ${CDOPT.body}.`
        : 'No admissible forces: this load makes something tip, slide or lift off. '
          + 'Contacts here only push; there is no friction.';
    }
    const equations = many(found.rank, 'independent equation');
    if (found.nullity === 0) {
      return `${capital(many(n, 'contact'))}, ${equations} of balance: balance alone decides every force. `
        + 'Stiffness, power and order change nothing.';
    }
    const free = `${capital(many(n, 'contact'))}, ${equations} of balance: `
      + `${many(found.nullity, 'number')} ${found.nullity === 1 ? 'is' : 'are'} free.`;
    const { lower, upper } = found.known;
    const loose = lower.filter((low, i) => upper[i] - low > 1e-9 * top).length;
    if (loose === 0) {
      return `${free} But no contact can pull, and under this load only one answer is left.`;
    }
    const idle = found.f.filter((f) => f <= IDLE * top).length;
    const open = idle ? ` ${capital(many(idle, 'contact'))} ${idle === 1 ? 'carries' : 'carry'} nothing.` : '';
    const jammed = upper.some((x) => x === Infinity)
      ? ' Forces without an upper bound squeeze a body from both sides.' : '';
    return `${free} Stiffness picks the compatible forces; the order of visits and the start pick those `
      + `of Gauss–Seidel.${open}${jammed}`;
  }

  return { number, force, range, summary };
})();
