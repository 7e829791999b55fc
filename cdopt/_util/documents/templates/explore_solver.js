// The page's solver: small dense contact problems. Plain script, no library.
//
// B is a list of rows (one per contact, one column per degree of freedom), load is F̃ = Bᵀf.
// rank, admissible intervals by linear programs, compatible forces by an interior point, and
// projected Gauss–Seidel. Forces come back in the units of the load.
const CdoptSolver = (() => {
  const CONSISTENT = 1e-7;  // of the load: what the contacts may leave uncarried
  const SINGULAR = 1e-9;  // of the largest: smaller pivots count as none
  const TIE = 1e-11;
  const IDLE = 1e-9;  // of the largest force: narrower intervals contain one force only

  const largest = (values) => values.reduce((top, x) => Math.max(top, Math.abs(x)), 0);
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const zeros = (n) => new Array(n).fill(0);

  // Bᵀf
  function spread(B, f) {
    const out = zeros(B.length ? B[0].length : 0);
    B.forEach((row, i) => row.forEach((x, j) => { out[j] += x * f[i]; }));
    return out;
  }

  // What one unit of each degree of freedom does to a gap, at most; one for those without contacts.
  function units(B, nv) {
    const beta = zeros(nv);
    B.forEach((row) => row.forEach((x, j) => { beta[j] = Math.max(beta[j], Math.abs(x)); }));
    return beta.map((x) => x || 1);
  }

  const scaled = (B, beta) => B.map((row) => row.map((x, j) => x / beta[j]));

  // --- orthogonal factors -------------------------------------------------------------

  // Householder's QR of a list of rows with pivoted columns, the rows sorted by size: stable row by
  // row, however far the sizes of rows differ (Cox & Higham 1998). At most `most` columns are taken.
  function factor(rows, most = Infinity) {
    const n = rows.length;
    const m = n ? rows[0].length : 0;
    const size = rows.map(largest);
    const order = rows.map((_, i) => i).sort((i, j) => size[j] - size[i]);
    const A = order.map((i) => Float64Array.from(rows[i]));
    const columns = [...Array(m).keys()];
    const mirrors = [];
    let first = 0;
    for (let k = 0; k < Math.min(n, m, most); k += 1) {
      const squares = new Float64Array(m);
      for (let i = k; i < n; i += 1) {
        const row = A[i];
        for (let j = k; j < m; j += 1) squares[j] += row[j] * row[j];
      }
      let at = k;
      for (let j = k; j < m; j += 1) if (squares[j] > squares[at]) at = j;
      const best = Math.sqrt(squares[at]);
      if (k === 0) first = best;
      if (!(best > (most === Infinity ? SINGULAR * first : 0))) break;
      if (at !== k) {
        A.forEach((row) => { [row[k], row[at]] = [row[at], row[k]]; });
        [columns[k], columns[at]] = [columns[at], columns[k]];
      }
      const v = new Float64Array(n);
      for (let i = k; i < n; i += 1) v[i] = A[i][k] / best;
      v[k] += v[k] < 0 ? -1 : 1;
      const half = Math.abs(v[k]);  // vᵀv / 2
      const sums = new Float64Array(m);
      for (let i = k; i < n; i += 1) {
        const row = A[i];
        for (let j = k; j < m; j += 1) sums[j] += (v[i] * row[j]) / half;
      }
      for (let i = k; i < n; i += 1) {
        const row = A[i];
        for (let j = k; j < m; j += 1) row[j] -= sums[j] * v[i];
      }
      mirrors.push({ v, half, k });
    }
    return { order, columns, mirrors, rank: mirrors.length };
  }

  const mirrored = (y, { v, half, k }) => {
    let sum = 0;
    for (let i = k; i < y.length; i += 1) sum += v[i] * y[i];
    sum /= half;
    for (let i = k; i < y.length; i += 1) y[i] -= sum * v[i];
  };

  // The part of a vector that the factored columns cannot reach.
  function beyond(qr, vector) {
    const y = Float64Array.from(qr.order, (i) => vector[i]);
    qr.mirrors.forEach((mirror) => mirrored(y, mirror));
    for (let i = 0; i < qr.rank; i += 1) y[i] = 0;
    for (let i = qr.rank - 1; i >= 0; i -= 1) mirrored(y, qr.mirrors[i]);
    const out = new Float64Array(y.length);
    qr.order.forEach((i, place) => { out[i] = y[place]; });
    return out;
  }

  function rank(B) {
    return B.length ? factor(scaled(B, units(B, B[0].length))).rank : 0;
  }

  // --- linear programs ----------------------------------------------------------------

  // A simplex tableau for A f = b, f ≥ 0, with one artificial force per equation behind the others.
  class Simplex {
    constructor(A, b) {
      this.m = A.length;
      this.n = this.m ? A[0].length : 0;
      this.sign = b.map((x) => (x < 0 ? -1 : 1));
      this.data = A.map((row, r) => Float64Array.from([
        ...row, ...A.map((_, c) => (c === r ? this.sign[r] : 0)), b[r],
      ], (x) => x * this.sign[r]));
      this.width = this.n + this.m + 1;
      this.basis = A.map((_, r) => this.n + r);
      this.rows = this.data.map((row) => row.slice());
      this.pivots = 0;
    }

    value(r) { return this.rows[r][this.width - 1]; }

    pivot(r, c) {
      const row = this.rows[r];
      const inverse = 1 / row[c];
      for (let j = 0; j < this.width; j += 1) row[j] *= inverse;
      this.rows.forEach((other, i) => {
        const share = other[c];
        if (i === r || share === 0) return;
        for (let j = 0; j < this.width; j += 1) other[j] -= share * row[j];
        other[c] = 0;
      });
      this.basis[r] = c;
      this.pivots += 1;
    }

    // The tableau of the same basis, computed again from the data: round-off does not gather.
    refresh() {
      const wanted = this.basis.slice();
      this.rows = this.data.map((row) => row.slice());
      const left = new Set(this.rows.keys());
      wanted.forEach((c) => {
        let best = -1;
        left.forEach((r) => {
          if (best < 0 || Math.abs(this.rows[r][c]) > Math.abs(this.rows[best][c])) best = r;
        });
        left.delete(best);
        this.pivot(best, c);
      });
      this.pivots = 0;
    }

    // Raise Σ gain_j f_j, reduced to forces outside the basis by `gains`. False: without bound.
    climb(gains, columns) {
      for (let count = 0; count < 200 * (this.m + this.n); count += 1) {
        const careful = count > 4 * (this.m + this.n);  // Bland's rule: no cycles
        const gain = gains();
        let enter = -1;
        for (let j = 0; j < columns; j += 1) {
          if (gain[j] > 1e-9 && (enter < 0 || (!careful && gain[j] > gain[enter]))) enter = j;
        }
        if (enter < 0) return true;
        const leave = this.leaving(enter, careful);
        if (leave < 0) { this.ray = enter; return false; }
        this.pivot(leave, enter);
      }
      return true;
    }

    leaving(enter, careful) {
      let [leave, least] = [-1, Infinity];
      for (let r = 0; r < this.m; r += 1) {
        const slope = this.rows[r][enter];
        if (slope > SINGULAR) {
          const ratio = Math.max(this.value(r), 0) / slope;
          const tied = Math.abs(ratio - least) <= TIE;
          const first = leave >= 0 && (careful ? this.basis[r] < this.basis[leave]
            : slope > this.rows[leave][enter]);
          if (ratio < least - TIE || (tied && first)) [leave, least] = [r, Math.min(ratio, least)];
        }
      }
      return leave;
    }

    // Make the artificial forces vanish; what is left of them at the end.
    begin() {
      const gains = () => {
        const total = new Float64Array(this.width);
        this.basis.forEach((c, r) => {
          if (c >= this.n) for (let j = 0; j < this.width; j += 1) total[j] += this.rows[r][j];
        });
        for (let j = this.n; j < this.width - 1; j += 1) total[j] -= 1;
        this.total = total;
        return total;
      };
      this.climb(gains, this.n);
      this.refresh();
      gains();
      const left = this.total[this.width - 1];
      if (left <= CONSISTENT) {
        this.basis.forEach((c, r) => {
          if (c < this.n) return;
          let best = 0;
          for (let j = 1; j < this.n; j += 1) {
            if (Math.abs(this.rows[r][j]) > Math.abs(this.rows[r][best])) best = j;
          }
          if (Math.abs(this.rows[r][best]) > SINGULAR) this.pivot(r, best);
        });
      }
      return left;
    }

    // The motion that tips or slides: B u ≥ 0 and F̃ᵀu < 0 (of scaled dofs), after `begin`.
    motion() { return this.sign.map((s, r) => -s * (1 + this.total[this.n + r])); }

    // Largest or least force of a contact, and the forces that reach it.
    extreme(i, up) {
      if (this.pivots > 30) this.refresh();
      const free = new Float64Array(this.width);
      const gains = () => {
        const r = this.basis.indexOf(i);
        if (r < 0) { free.fill(0); free[i] = up ? 1 : -1; return free; }
        const gain = this.rows[r].map((x) => (up ? -x : x));
        gain[i] = 0;
        return gain;
      };
      const bounded = this.climb(gains, this.n);
      const forces = this.forces();
      if (bounded) return { value: forces[i], forces };
      const ray = zeros(this.n);
      ray[this.ray] = 1;
      this.basis.forEach((c, r) => { if (c < this.n) ray[c] = -this.rows[r][this.ray]; });
      return { value: Infinity, forces: forces.map((x, j) => x + Math.max(ray[j], 0)) };
    }

    forces() {
      const f = zeros(this.n);
      this.basis.forEach((c, r) => { if (c < this.n) f[c] = Math.max(this.value(r), 0); });
      return f;
    }
  }

  // All forces that carry a load: least and largest of each contact, and one set of forces that is
  // positive wherever a force may be. Without any, the motion that the load drives.
  function admissible(B, load) {
    const nc = B.length;
    const beta = units(B, load.length);
    const F = load.map((x, j) => x / beta[j]);
    const unit = largest(F);
    const none = { feasible: unit === 0, motion: load.map((x) => -x), lower: zeros(nc), upper: zeros(nc), inside: zeros(nc) };
    if (nc === 0) return none;
    const S = scaled(B, beta);
    const chosen = factor(S).columns.slice(0, rank(B));
    const b = F.map((x) => (unit ? x / unit : 0));
    const lp = new Simplex(chosen.map((j) => S.map((row) => row[j])), chosen.map((j) => b[j]));
    const left = lp.begin();
    if (left > CONSISTENT) {
      const u = zeros(load.length);
      lp.motion().forEach((x, k) => { u[chosen[k]] = x / beta[chosen[k]]; });
      return { ...none, feasible: false, motion: u };
    }
    const off = spread(S, lp.forces()).map((x, j) => x - b[j]);
    if (largest(off) > CONSISTENT) {
      return { ...none, feasible: false, motion: off.map((x, j) => x / beta[j]) };
    }
    const inside = zeros(nc);
    const bounds = S.map((_, i) => [false, true].map((up) => {
      const found = lp.extreme(i, up);
      found.forces.forEach((x, j) => { inside[j] += (x * unit) / (2 * nc); });
      return found.value * (unit || (found.value === Infinity ? 1 : 0));
    }));
    return { feasible: true, lower: bounds.map((x) => x[0]), upper: bounds.map((x) => x[1]), inside };
  }

  return {
    CONSISTENT, IDLE, largest, dot, zeros, spread, units, scaled, factor, beyond, rank, admissible,
  };
})();
