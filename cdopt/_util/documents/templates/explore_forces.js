// Compatible forces, and projected Gauss–Seidel: what picks one of the admissible answers.
const CdoptForces = (() => {
  const { CONSISTENT, IDLE, largest, dot, zeros, spread: summed, units, scaled, factor, beyond } = CdoptSolver;
  const STEPS = 400;
  const SHARP = 1e-12;  // of the largest force: a last Newton step
  const PATIENCE = 30;  // steps without a shorter one, once the barrier is gone

  // The forces that elastic contacts give: min Σ w*(f) over f ≥ 0 with Bᵀf = F̃, equation (36).
  // `known` is the result of `admissible` for B and the load, and feasible.
  function compatible(B, known, stiffness, power) {
    const { lower, upper, inside } = known;
    const size = largest(inside);
    if (!(size > 0)) return zeros(B.length);
    const f = inside.map((x) => x / size);
    const free = [];
    f.forEach((x, i) => {
      if (upper[i] - lower[i] > IDLE * size) free.push(i);
      else f[i] = (0.5 * (lower[i] + upper[i])) / size;
    });
    if (free.length) {
      const rows = scaled(B, units(B, B[0].length));
      const found = settle(free.map((i) => rows[i]), free.map((i) => f[i]),
        free.map((i) => stiffness[i]), power);
      free.forEach((i, place) => { f[i] = found[place]; });
    }
    return f.map((x) => x * size);
  }

  // A primal–dual interior point within {f > 0} and the given Bᵀf, from an interior f.
  function settle(B, start, stiffness, power) {
    const n = start.length;
    const q = power / (power - 1);
    const top = largest(start);
    const mean = Math.exp(stiffness.reduce((sum, k) => sum + Math.log(k), 0) / n);
    const k = stiffness.map((x) => x / mean);
    const overlap = (x, i) => Math.pow(x / k[i], q - 1);
    const energy = (f, mu) => f.reduce((e, x, i) => e + (x * overlap(x, i)) / q - mu * Math.log(x), 0);
    const most = factor(B).rank;
    let f = start.map((x) => Math.max(x / top, 1e-14));
    let c = f.map(overlap);
    let mu = dot(c, f) / n;
    // far enough for idle forces that cost next to nothing: μ = f^q / k^(q−1) with f = 1e-9
    const spread = Math.max(...k) / Math.min(...k);
    const last = mu * Math.pow(10, -Math.max(20, 9 * q)) * Math.pow(spread, 1 - q);
    let s = f.map((x) => mu / x);
    let [shortest, since] = [Infinity, 0];
    for (let count = 0; count < STEPS; count += 1) {
      c = f.map(overlap);
      const w = f.map((x, i) => 1 / Math.sqrt(((q - 1) * c[i]) / x + s[i] / x));
      const g = f.map((x, i) => c[i] - mu / x);
      const y = beyond(factor(B.map((row, i) => row.map((x) => x * w[i])), most),
        g.map((x, i) => x * w[i]));
      const df = f.map((_, i) => -w[i] * y[i]);
      const ds = f.map((x, i) => mu / x - s[i] - (s[i] / x) * df[i]);
      const fall = dot(g, df);  // ≤ 0: the slope of the energy along the step
      let step = Math.min(1, ...f.map((x, i) => (df[i] < 0 ? (-0.99 * x) / df[i] : 1)));
      const dual = Math.min(1, ...s.map((x, i) => (ds[i] < 0 ? (-0.99 * x) / ds[i] : 1)));
      const before = energy(f, mu);
      const blur = 1e-13 * Math.abs(before);
      const next = (t) => f.map((x, i) => x + t * df[i]);
      for (let halves = 0; halves < 40; halves += 1) {
        if (energy(next(step), mu) <= before + 1e-4 * step * fall + blur) break;
        step *= 0.5;
      }
      f = next(step);
      s = s.map((x, i) => {
        const ideal = mu / f[i];
        return Math.min(Math.max(x + dual * ds[i], 1e-10 * ideal), 1e10 * ideal);
      });
      const move = largest(df) / largest(f);
      since = mu > last || move < 0.9 * shortest ? 0 : since + 1;
      shortest = mu > last ? Infinity : Math.min(move, shortest);
      if (mu <= last && (move < SHARP || since > PATIENCE)) break;
      if (mu > last && (step > 0.5 || -fall <= mu)) mu = Math.max(mu * (step > 0.9 ? 0.05 : 0.3), last);
    }
    return f.map((x) => x * top);
  }

  // Projected Gauss–Seidel on ½fᵀNf + pᵀf, f ≥ 0, in an order of visits from given forces: the
  // sweeps of cdopt's backend "pgs". W = Δt B M⁻¹ (nc, nv), so that N = W Bᵀ and p = −W F̃.
  // It ends when it has settled, or after `stop` visits; `last` is the visit before the end.
  function gaussSeidel(B, W, load, order, start, accuracy = 1e-12, most = 20000, stop = Infinity) {
    const f = start.slice();
    const own = B.map((row, i) => dot(W[i], row));
    const N = W.map((w) => B.map((row) => dot(w, row)));
    const p = W.map((w) => -dot(w, load));
    const visits = order.filter((i) => own[i] > 0);
    f.forEach((_, i) => { if (!(own[i] > 0)) f[i] = 0; });
    const speed = largest(p) || Math.max(...own.map((x, i) => x * f[i]), 0) || 1;
    let [sweeps, worst, done, last] = [0, Infinity, 0, null];
    while (sweeps < most && worst > accuracy * speed && done < stop) {
      worst = 0;
      const now = visits.slice(0, stop - done);
      now.forEach((i) => {
        const gap = p[i] + dot(N[i], f);
        worst = Math.max(worst, Math.abs(Math.min(own[i] * f[i], gap)));
        last = { contact: i, from: f[i] };
        f[i] -= Math.min(f[i], gap / own[i]);
      });
      done += now.length;
      sweeps += 1;
      if (now.length < visits.length) worst = Infinity;
    }
    return { f, sweeps, done, last, met: worst <= accuracy * speed };
  }

  // Everything that the page shows of one state.
  function answer({ B, W, load, stiffness, power, order, start, stop, known = CdoptSolver.admissible(B, load) }) {
    const count = CdoptSolver.rank(B);
    const shared = { known, rank: count, nullity: B.length - count };
    if (!known.feasible) return { ...shared, feasible: false };
    const f = compatible(B, known, stiffness, power);
    known.least ||= compatible(B, known, B.map(() => 1), 2);  // kept with the load
    const beta = units(B, load.length);
    const off = summed(B, f).map((x, j) => (x - load[j]) / beta[j]);
    return {
      ...shared,
      feasible: true,
      f,
      least: known.least,
      swept: gaussSeidel(B, W, load, order, start, undefined, undefined, stop),
      residual: largest(off) / (largest(load.map((x, j) => x / beta[j])) || 1),
      carried: CONSISTENT,
    };
  }

  return { compatible, gaussSeidel, answer };
})();
