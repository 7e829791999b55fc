// A run in the plane, on a canvas. PACKED is the run, COLOURS those of contacts that stick or slide.
const MOST_SHOWN = 200;  // frames that playing shows
const PAUSE = 40;  // ms
const MARGIN = 0.04;  // of the picture, around the scene
const WIDEST = 13;  // pixels, the line of the largest force
const pen = el('flat').getContext('2d');
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

async function unpacked() {
  const bytes = Uint8Array.from(atob(PACKED), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return JSON.parse(await new Response(stream).text());
}

// Places of the grid to pixels, y upward: the whole scene in the middle.
function view() {
  const box = el('canvasTarget').getBoundingClientRect();
  const [w, h] = [box.width, box.height];
  const sharp = window.devicePixelRatio || 1;
  Object.assign(el('flat'), { width: Math.round(w * sharp), height: Math.round(h * sharp) });
  const [wide, tall] = CDOPT.size.map((x) => Math.max(x, 1));
  const s = (1 - 2 * MARGIN) * Math.min(w / wide, h / tall);
  pen.setTransform(sharp, 0, 0, sharp, 0, 0);
  return { s, at: (x, y) => [0.5 * w + s * (x - 0.5 * wide), 0.5 * h - s * (y - 0.5 * tall)] };
}

function path(points, closed) {
  pen.beginPath();
  points.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  if (closed) pen.closePath();
}

function ink(fixed) {
  pen.lineWidth = 1;
  pen.fillStyle = colour(fixed ? '--fixed' : '--body');
  pen.strokeStyle = colour(fixed ? '--quiet' : '--edge');
}

function drawWalls(frame, { s, at }) {  // a band behind the line of each
  for (let k = 0; k < frame.walls.length; k += 4) {
    const [a, b] = [at(...frame.walls.slice(k, k + 2)), at(...frame.walls.slice(k + 2, k + 4))];
    const deep = (0.3 * s * CDOPT.thick) / (Math.hypot(b[0] - a[0], b[1] - a[1]) || 1);
    const back = [-deep * (b[1] - a[1]), deep * (b[0] - a[0])];
    ink(true);
    path([a, b, [b[0] + back[0], b[1] + back[1]], [a[0] + back[0], a[1] + back[1]]], true);
    pen.fill();
    path([a, b], false);
    pen.stroke();
  }
}

function drawOutlines(frame, { s, at }) {
  CDOPT.outlines.forEach(({ body, ring }) => {
    const [x, y] = at(frame.x[2 * body], frame.x[2 * body + 1]);
    const a = frame.a[body] / CDOPT.turn;
    const [c, d] = [s * Math.cos(a), s * Math.sin(a)];
    ink(FIXED.has(body));
    path(ring.map(([u, v]) => [x + c * u - d * v, y - d * u - c * v]), true);
    pen.fill();
    pen.stroke();
  });
}

function drawBalls(frame, { s, at }) {  // two dark quarters show how each has turned
  CDOPT.balls.forEach((body, k) => {
    const [x, y] = at(frame.x[2 * body], frame.x[2 * body + 1]);
    const r = s * CDOPT.radii[k];
    ink(FIXED.has(body));
    pen.beginPath();
    pen.arc(x, y, r, 0, 2 * Math.PI);
    pen.fill();
    pen.stroke();
    pen.fillStyle = colour('--rule');
    for (let quarter = 0; quarter < 4; quarter += 2) {
      const from = -frame.a[body] / CDOPT.turn + (quarter * Math.PI) / 2;
      pen.beginPath();
      pen.moveTo(x, y);
      pen.arc(x, y, r, from, from + Math.PI / 2);
      pen.closePath();
      pen.fill();
    }
  });
}

// Lines through the contact points, as wide as the normal force; returns how many.
function drawForces(frame, values, top, { s, at }) {
  let drawn = 0;
  const widest = Math.min(Math.max(3, 0.5 * s * CDOPT.thick), WIDEST);
  pen.lineCap = 'round';
  values.forEach((share, i) => {
    const part = (share * frame.unit) / (CDOPT.shares * (top || 1));
    if (!(part > 1e-3)) return;
    const p = frame.lines.slice(6 * i, 6 * i + 6);
    path([at(p[0], p[1]), at(p[2], p[3]), at(p[4], p[5])], false);
    pen.lineWidth = 0.8 + widest * Math.min(part, 1);
    pen.strokeStyle = CDOPT.rough ? COLOURS[frame.slides[i]] : colour('--ink');
    pen.stroke();
    drawn += 1;
  });
  pen.lineCap = 'butt';
  return drawn;
}

function words(frame, name, drawn, top) {
  el('time').textContent = `t = ${clean(frame.t)} s, step ${frame.step}`;
  el('top').textContent = `${clean(top)} N`;
  if (frame.step === 0 && frame.contacts === 0) {
    el('count').textContent = 'the start: no forces yet';
    return;
  }
  const sliding = frame.slides.reduce((sum, x) => sum + x, 0);
  const moves = CDOPT.rough ? `, ${sliding} of them slide` : '';
  el('count').textContent = `${drawn} of ${frame.contacts} contacts carry${moves}; `
    + `largest force ${clean(frame.top[name])} N`;
}

function show() {
  const k = Number(el('frame').value);
  const [frame, name] = [CDOPT.frames[k], el('force').value];
  const run = Math.max(...CDOPT.frames.map((f) => f.top[name]));
  const top = el('scale').value === 'run' ? run : frame.top[name];
  const seen = view();
  drawWalls(frame, seen);
  drawOutlines(frame, seen);
  drawBalls(frame, seen);
  words(frame, name, drawForces(frame, frame.f[name], top, seen), top);
  document.body.dataset.frame = String(k);
}

let FIXED = new Set();
if (typeof DecompressionStream === 'undefined') {
  el('missing').hidden = false;
} else {
  unpacked().then((run) => {
    CDOPT = run;
    FIXED = new Set(run.fixed);
    ['force', 'scale'].forEach((id) => { el(id).oninput = show; });
    window.addEventListener('resize', show);
    show();
  });
}
