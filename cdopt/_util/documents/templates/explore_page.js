// The page: its state, its controls, and what they show. CDOPT is what the page was made of.
const el = (id) => document.getElementById(id);
const N = CDOPT.names.length;
const LOG = CDOPT.stiffness.map((k) => Math.log10(k));
const [SOFT, HARD] = [Math.floor(Math.min(...LOG)) - 3, Math.ceil(Math.max(...LOG)) + 3];
const START_UNIT = CdoptSolver.largest(CdoptSolver.units(CDOPT.B, CDOPT.B[0].length)
  .map((b, j) => CdoptLoad.at(CDOPT.load.start)[j] / b)) || 1;  // N: the whole load, about
const MOST_VISITS = 20000 * N;
const NUMBERED = [...Array(N).keys()];
const ORDERS = {
  given: () => NUMBERED,
  reversed: () => NUMBERED.slice().reverse(),
  middle: () => NUMBERED.slice().sort((a, b) => Math.abs(2 * a - N + 1) - Math.abs(2 * b - N + 1) || a - b),
  shuffled: () => {
    const order = NUMBERED.slice();
    let seed = 7;
    for (let i = N - 1; i > 0; i -= 1) {
      seed = (seed * 16807) % 2147483647;
      const j = seed % (i + 1);
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  },
};
const first = () => ({
  stiffness: LOG.slice(), load: CDOPT.load.start.slice(), power: CDOPT.power, order: ORDERS.given(), start: 0,
  visits: null,  // of Gauss–Seidel, one by one; null is as many as it needs
  angles: [35, 25],  // of the view of space: about the vertical, and from above; degrees
});

let state = first();
let known = null;  // what balance allows, of the load in `knownLoad`
let knownLoad = '';
let scales = null;  // at the start: the longest arrow, the longest bar
let near = -1;  // the contact that is pointed at
let changes = 0;
const rows = [];

const tilted = ([turn, tilt]) => [turn, Math.min(Math.max(tilt, 3), 87)];  // never from below

// --- the address ---------------------------------------------------------------------------

const list = (values) => values.map((x) => Number(x.toPrecision(9))).join(',');

function hash() {
  return `#k=${list(state.stiffness)}&load=${list(state.load)}&p=${state.power}`
    + `&order=${state.order.join(',')}&start=${state.start}`
    + (state.visits === null ? '' : `&visits=${state.visits}`)
    + (CdoptDrawing.space ? `&angles=${list(state.angles)}` : '');
}

function read(text) {
  const given = new URLSearchParams(text.replace(/^#/, ''));
  const made = first();
  const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
  const numbers = (name, size) => {
    const values = (given.get(name) || '').split(',').map((x) => (x.trim() === '' ? NaN : Number(x)));
    return values.length === size && values.every(Number.isFinite) ? values : null;
  };
  const k = numbers('k', N);
  if (k) made.stiffness = k.map((x) => clamp(x, SOFT, HARD));
  const load = numbers('load', made.load.length);
  if (load) made.load = load.map((x, d) => clamp(x, CDOPT.load.low[d], CDOPT.load.high[d]));
  const power = numbers('p', 1);
  if (power) made.power = clamp(power[0], ...CDOPT.powers);
  const order = numbers('order', N);
  if (order && order.slice().sort((a, b) => a - b).every((x, i) => x === i)) made.order = order;
  const start = numbers('start', 1);
  if (start) made.start = clamp(start[0], 0, 1);
  const visits = numbers('visits', 1);
  if (visits) made.visits = clamp(Math.round(visits[0]), 0, MOST_VISITS);
  const angles = numbers('angles', 2);
  if (angles) made.angles = tilted(angles);
  return made;
}

// --- controls ------------------------------------------------------------------------------

function slider(id, low, high, step, change) {
  const input = el(id);
  Object.assign(input, { min: low, max: high, step });
  input.addEventListener('input', () => { change(Number(input.value)); ask(); });
  return input;
}

function stepOf(range) {  // about 200 steps, of a round size
  const ten = 10 ** Math.floor(Math.log10(range / 200));
  return ten * [1, 2, 5, 10].find((x) => x * ten >= range / 200);
}

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
  made.append(...children);
  return made;
}

function buildLoads() {
  const { names, low, high } = CDOPT.load;
  names.forEach((name, d) => {
    el('loads').append(make('div', { class: 'control' }, make('label', { for: `load${d}` }, name),
      make('input', { type: 'range', id: `load${d}` }), make('output', { id: `load${d}-value`, for: `load${d}` })));
    const step = stepOf(high[d] - low[d]);
    slider(`load${d}`, low[d], high[d], 'any', (x) => setLoad(d, x)).step = step;
  });
}

function setLoad(d, x) {  // on a round step of its slider
  const { low, high } = CDOPT.load;
  const step = stepOf(high[d] - low[d]);
  const round = Math.round(x / step) * step;
  state.load[d] = Number(Math.min(Math.max(round, low[d]), high[d]).toPrecision(9));
}

function moved(i, by) {
  const place = state.order.indexOf(i);
  const other = place + by;
  if (other < 0 || other >= N) return;
  const order = state.order.slice();
  [order[place], order[other]] = [order[other], order[place]];
  state.order = order;
  ask();
}

function buildContacts() {
  CDOPT.names.forEach((name, i) => {
    const id = `k${i}`;
    const parts = {};
    const part = (key, tag, attributes = {}) => {
      parts[key] = make(tag, attributes);
      return parts[key];
    };
    const button = (words, sign, by) => {
      const made = make('button', { type: 'button', 'aria-label': `visit ${name} ${words}`, title: words }, sign);
      made.addEventListener('click', () => moved(i, by));
      parts[words] = made;
      return made;
    };
    const item = make('li', {},
      make('div', { class: 'head' },
        make('label', { class: 'name', for: id }, name),
        make('input', { type: 'range', id, 'aria-label': `stiffness of ${name}` }),
        part('stiff', 'output', { class: 'stiff', for: id }),
        make('span', { class: 'visit' }, button('earlier', '▲', -1), part('visit', 'b'), button('later', '▼', 1))),
      make('div', { class: 'scale', 'aria-hidden': 'true' }, part('band', 'span', { class: 'band' }),
        part('bar', 'span', { class: 'bar' }), part('pgs', 'i', { class: 'pgs' }),
        part('least', 'i', { class: 'least' })),
      part('numbers', 'p', { class: 'numbers' }));
    ['focusin', 'pointerenter'].forEach((event) => item.addEventListener(event, () => { near = i; ask(); }));
    item.addEventListener('pointerleave', () => { near = -1; ask(); });
    el('contacts').append(item);
    parts.input = slider(id, SOFT, HARD, 0.02, (x) => { state.stiffness[i] = x; });
    rows.push(parts);
  });
}

// --- what is shown -------------------------------------------------------------------------

const share = (x, top) => `${Number((100 * Math.min(x / top, 1)).toFixed(4))}%`;

function answer(asked) {
  const load = CdoptLoad.at(asked.load);
  const key = load.join();
  if (key !== knownLoad) [known, knownLoad] = [CdoptSolver.admissible(CDOPT.B, load), key];
  return CdoptForces.answer({
    B: CDOPT.B, W: CDOPT.response, load, stiffness: asked.stiffness.map((x) => 10 ** x), power: asked.power,
    order: asked.order, start: new Array(N).fill(asked.start * START_UNIT), known,
    stop: asked.visits === null ? Infinity : asked.visits,
  });
}

function showControls() {
  state.load.forEach((x, d) => {
    el(`load${d}`).value = x;
    const words = `${CdoptWords.number(x)} ${CDOPT.load.units[d]}`;
    el(`load${d}-value`).textContent = words;
    el(`load${d}`).setAttribute('aria-valuetext', words);
  });
  el('power').value = state.power;
  el('power-value').textContent = CdoptWords.number(state.power);
  el('hooke').setAttribute('aria-pressed', String(state.power === CDOPT.hooke));
  el('hertz').setAttribute('aria-pressed', String(state.power === 2.5));
  el('start').value = state.start;
  el('start-value').textContent = `${CdoptWords.force(state.start * START_UNIT)} each`;
  const same = Object.keys(ORDERS).find((name) => ORDERS[name]().join() === state.order.join());
  el('order').value = same || 'own';
  rows.forEach((row, i) => {
    const words = `k = ${CdoptWords.number(10 ** state.stiffness[i])}`;
    const place = state.order.indexOf(i);
    row.input.value = state.stiffness[i];
    row.stiff.textContent = words;
    row.visit.textContent = `${place + 1}.`;
    row.visit.title = `visited ${place + 1}. of ${N}`;
    row.earlier.setAttribute('aria-disabled', String(place === 0));  // focus stays, as `disabled` would not
    row.later.setAttribute('aria-disabled', String(place === N - 1));
  });
}

function numbers(found, i, top) {
  if (!found.feasible) return [make('span', {}, 'no force')];
  const { lower, upper } = found.known;
  return [
    make('strong', {}, CdoptWords.force(found.f[i], top)),
    make('span', {}, CdoptWords.range(lower[i], upper[i], top)),
    make('span', { class: 'of-pgs' }, `Gauss–Seidel ${CdoptWords.force(found.swept.f[i], top)}`),
    make('span', { class: 'of-least' }, `least norm ${CdoptWords.force(found.least[i], top)}`),
  ];
}

function showContacts(found, top) {
  const { lower, upper } = found.known;
  rows.forEach((row, i) => {
    ['band', 'bar', 'pgs', 'least'].forEach((key) => { row[key].hidden = !found.feasible; });
    row.numbers.replaceChildren(...numbers(found, i, top));
    const force = found.feasible ? CdoptWords.force(found.f[i], top) : 'no force';
    row.input.setAttribute('aria-valuetext', `${row.stiff.textContent}, ${force}`);
    if (!found.feasible) return;
    const high = Math.min(upper[i], top);
    row.band.style.left = share(lower[i], top);
    row.band.style.width = share(high - lower[i], top);
    row.band.classList.toggle('open', upper[i] === Infinity);
    row.bar.style.width = share(found.f[i], top);
    row.pgs.style.left = share(found.swept.f[i], top);
    row.least.style.left = share(found.least[i], top);
  });
}

function showFacts(found) {
  const facts = [
    ['contacts', N],
    ['degrees of freedom', CDOPT.B[0].length],
    ['independent equations', found.rank],
    ['hyperstatic number', found.nullity],
    ['error of balance', !found.feasible ? '–'
      : found.residual < 1e-12 ? 'below 1e-12' : CdoptWords.number(found.residual)],
  ];
  el('facts').replaceChildren(...facts.map(([name, value]) => make('div', {}, make('dt', {}, name),
    make('dd', {}, String(value)))));
}

function showSweeps(found) {
  const { swept } = found;
  const stepped = state.visits !== null;
  if (stepped && found.feasible) state.visits = Math.min(state.visits, swept.done);
  el('sweeps').textContent = !found.feasible ? '–'
    : `${CdoptWords.number(swept.sweeps)}${swept.met || stepped ? '' : '+'} sweep${swept.sweeps === 1 ? '' : 's'}`;
  el('back').setAttribute('aria-disabled', String(!(state.visits > 0)));
  el('settle').setAttribute('aria-pressed', String(!stepped));
  const { last } = swept || {};
  el('visited').textContent = !stepped || !found.feasible ? ''
    : last === null ? 'Before the first visit: the forces at the start.'
      : `Visit ${CdoptWords.number(state.visits)}, to ${CDOPT.names[last.contact]}: `
        + `${CdoptWords.force(last.from)} becomes ${CdoptWords.force(swept.f[last.contact])}`
        + (swept.met ? '; settled.' : '.');
  return stepped && last ? last.contact : -1;
}

function visit(by) {
  state.visits = Math.min(Math.max((state.visits || 0) + by, 0), MOST_VISITS);
  ask();
}

// The largest force, and the largest that any bar or mark shows.
function sizes(found) {
  if (!found.feasible) return [0, 0];
  const all = [found.f, found.known.upper, found.swept.f, found.least];
  const most = CdoptSolver.largest(all.flat().filter(Number.isFinite));
  const room = found.known.upper.includes(Infinity) ? 1.2 : 1;  // behind every bar, for the arrows
  return [CdoptSolver.largest(found.f), room * most];
}

function show() {
  const found = answer(state);
  const [strong, most] = sizes(found);
  scales ||= sizes(answer(first()));
  const longest = Math.max(strong, scales[0]) || 1;
  const top = Math.max(most, scales[1]) || 1;
  showControls();
  showContacts(found, top);
  showFacts(found);
  const visited = showSweeps(found);
  el('whole').textContent = `full width: ${CdoptWords.force(top)}`;
  const late = found.feasible && !found.swept.met && state.visits === null
    ? ' Gauss–Seidel has not settled yet: its marks still creep.' : '';
  const words = CdoptWords.summary(found, strong || 1) + late;
  if (el('summary').textContent !== words) el('summary').textContent = words;  // said aloud once
  el('summary').classList.toggle('none', !found.feasible);
  CdoptDrawing.draw({
    values: state.load, angles: state.angles, force: found.feasible ? found.f : null,
    motion: found.feasible ? null : found.known.motion, top: longest, label: CdoptWords.force,
    near: near >= 0 ? near : visited,
  });
  try { window.history.replaceState(null, '', hash()); } catch (error) { /* a page within a page */ }
  changes += 1;
  window.cdopt = { state, found };  // for the console
  document.body.dataset.shown = String(changes);
}

let asked = false;
function ask() {  // at most once per frame
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; show(); });
}

async function copy() {
  const address = window.location.href.split('#')[0] + hash();
  try {
    await navigator.clipboard.writeText(address);
    el('copied').textContent = 'copied';
  } catch (error) {
    el('copied').textContent = 'copy it from the address bar';
  }
}

buildLoads();
buildContacts();
slider('power', ...CDOPT.powers, 0.01, (x) => { state.power = x; });
slider('start', 0, 1, 0.01, (x) => { state.start = x; });
el('hooke').addEventListener('click', () => { state.power = CDOPT.hooke; ask(); });
el('hertz').addEventListener('click', () => { state.power = 2.5; ask(); });
el('order').addEventListener('change', () => {
  const order = ORDERS[el('order').value];
  if (order) state.order = order().slice();
  ask();
});
el('back').addEventListener('click', () => visit(-1));
el('visit').addEventListener('click', () => visit(1));
el('sweep').addEventListener('click', () => visit(N - ((state.visits || 0) % N)));
el('settle').addEventListener('click', () => { state.visits = null; ask(); });
el('turning').hidden = !CdoptDrawing.space;
CdoptDrawing.listen(() => ({ load: state.load.slice(), angles: state.angles.slice() }), (what, values) => {
  if (what === 'load') values.forEach((x, d) => setLoad(d, x));
  else state.angles = tilted(values);
  ask();
});
el('reset').addEventListener('click', () => { state = first(); ask(); });
el('link').addEventListener('click', copy);
// a frame that was asked for may have replaced the address since
window.addEventListener('hashchange', (event) => { state = read(new URL(event.newURL).hash); ask(); });
window.addEventListener('resize', ask);
state = read(window.location.hash);
show();
