// Runs after K3D has drawn its objects. CDOPT is what the page was made of; K3DInstance the plot.
const bytes = fflate.unzlibSync(_base64ToArrayBuffer(CDOPT.data));
const KINDS = { u2: Uint16Array, i2: Int16Array, u4: Uint32Array, f4: Float32Array };
const table = (part) => {
  const buffer = bytes.slice(part.start, part.start + part.bytes).buffer;
  return new KINDS[part.kind](buffer);
};
const placed = (part) => {  // 16-bit places count steps from the lowest corner; others are metres
  const raw = table(part);
  if (part.kind !== 'u2') return raw;
  const out = new Float32Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) out[i] = CDOPT.low[i % 3] + raw[i] * CDOPT.step;
  return out;
};
const OWN = table(CDOPT.solids.corners);
const ROW = table(CDOPT.solids.row);
function turned(frame) {  // corners of solids, by the place and the unit quaternion of their bodies
  const place = placed(frame.places);
  const q = table(frame.turns);
  const out = new Float32Array(OWN.length);
  for (let k = 0; k < ROW.length; k += 1) {
    const r = 4 * ROW[k];
    const size = Math.hypot(q[r], q[r + 1], q[r + 2], q[r + 3]);
    const [w, x, y, z] = [q[r] / size, q[r + 1] / size, q[r + 2] / size, q[r + 3] / size];
    const [a, b, c] = [OWN[3 * k], OWN[3 * k + 1], OWN[3 * k + 2]];
    const tx = 2 * (y * c - z * b);
    const ty = 2 * (z * a - x * c);
    const tz = 2 * (x * b - y * a);
    out[3 * k] = place[3 * ROW[k]] + a + w * tx + y * tz - z * ty;
    out[3 * k + 1] = place[3 * ROW[k] + 1] + b + w * ty + z * tx - x * tz;
    out[3 * k + 2] = place[3 * ROW[k] + 2] + c + w * tz + x * ty - y * tx;
  }
  return out;
}
window.plot = K3DInstance;  // for the console
const byName = {};
Object.values(K3DInstance.getWorld().ObjectsListJson).forEach((o) => { byName[o.name] = o; });
const SIDES = 6;

function chains(ends, forces, top) {  // a prism per contact, as wide as its force
  const strong = [];
  for (let i = 0; i < forces.length; i += 1) if (forces[i] > CDOPT.idle * top) strong.push(i);
  const n = Math.max(strong.length, 1) * 2 * SIDES;
  const vertices = new Float32Array(n * 3);
  const attribute = new Float32Array(n);
  const indices = new Uint32Array(n * 3);
  let v = 0;
  let t = 0;
  strong.forEach((i) => {
    const a = ends.subarray(6 * i, 6 * i + 3);
    const b = ends.subarray(6 * i + 3, 6 * i + 6);
    const along = [b[0] - a[0], b[1] - a[1], b[2] - a[2]];
    const length = Math.hypot(...along) || 1;
    const [x, y, z] = along.map((k) => k / length);
    const p = Math.abs(z) < 0.9 ? [y, -x, 0] : [0, z, -y];
    const size = Math.hypot(...p);
    const s = p.map((k) => k / size);
    const r = [y * s[2] - z * s[1], z * s[0] - x * s[2], x * s[1] - y * s[0]];
    const share = Math.min(forces[i] / top, 1);
    const wide = CDOPT.thick * (0.04 + 0.3 * share);
    const first = v;
    for (let k = 0; k < 2 * SIDES; k += 1) {
      const angle = (2 * Math.PI * (k % SIDES)) / SIDES;
      const [c, q] = [wide * Math.cos(angle), wide * Math.sin(angle)];
      const end = k < SIDES ? a : b;
      for (let d = 0; d < 3; d += 1) vertices[3 * v + d] = end[d] + c * s[d] + q * r[d];
      attribute[v] = share;
      v += 1;
    }
    for (let k = 0; k < SIDES; k += 1) {
      const next = (k + 1) % SIDES;
      indices.set([first + k, first + next, first + k + SIDES,
        first + next, first + next + SIDES, first + k + SIDES], t);
      t += 6;
    }
  });
  return { vertices, attribute, indices, shown: strong.length };
}

const shaped = (data, columns) => ({ data, shape: columns ? [data.length / columns, columns] : [data.length] });
function redraw(name, changes) {
  const object = byName[name];
  if (object === undefined) return Promise.resolve();
  return K3DInstance.reload(Object.assign(object, changes), changes, true);
}

let again = false;
function show() {
  if (busy) { again = true; return; }
  busy = true;
  const k = Number(el('frame').value);
  const frame = CDOPT.frames[k];
  const force = el('force').value;
  const values = table(frame.forces[force]);
  let own = 0;
  for (let i = 0; i < values.length; i += 1) own = Math.max(own, values[i] || 0);
  const top = (el('scale').value === 'run' ? CDOPT.top : own) || 1;
  const net = chains(placed(frame.lines), values, top);
  const size = Number(el('size').value) / 100;
  const sizes = Float32Array.from(CDOPT.radii, (r) => 2 * r * size);
  const corners = turned(frame);
  Promise.all([
    redraw('balls', { positions: shaped(placed(frame.balls), 3), point_sizes: shaped(sizes) }),
    redraw('solids', { vertices: shaped(corners, 3), opacity: Number(el('opacity').value) / 100 }),
    redraw('edges', { vertices: shaped(corners, 3) }),
    redraw('walls', { vertices: shaped(placed(frame.walls), 3) }),
    redraw('chains', {
      vertices: shaped(net.vertices, 3),
      indices: shaped(net.indices, 3),
      attribute: shaped(net.attribute),
    }),
  ]).then(() => {
    K3DInstance.render();
    el('time').textContent = `t = ${clean(frame.t)} s, step ${frame.step}`;
    el('count').textContent = k === 0 && values.length === 0
      ? 'the start: no forces yet'
      : `${net.shown} of ${frame.contacts} contacts drawn; largest force ${clean(own)} N`;
    el('top').textContent = `${clean(top)} N`;
    document.body.dataset.frame = String(k);
    busy = false;
    if (again) { again = false; show(); }
  });
}

function look() {  // the whole scene, whatever the shape of the window
  const target = CDOPT.low.map((x, d) => (x + CDOPT.high[d]) / 2);
  const canvas = el('canvasTarget');
  const narrow = Math.min(1, canvas.clientWidth / Math.max(canvas.clientHeight, 1));
  const size = Math.hypot(...CDOPT.low.map((x, d) => CDOPT.high[d] - x));
  const away = (CDOPT.away * size) / narrow;
  const eye = target.map((x, d) => x + away * CDOPT.from[d]);
  K3DInstance.setCamera([...eye, ...target, ...CDOPT.up]);
}

['force', 'scale', 'size', 'opacity'].forEach((id) => { el(id).oninput = show; });
setTimeout(look, 20);
show();
