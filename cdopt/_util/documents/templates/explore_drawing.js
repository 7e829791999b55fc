// The picture: bodies, contact forces and the load, as SVG in metres, and what is dragged in it.
const CdoptDrawing = (() => {
  const NS = 'http://www.w3.org/2000/svg';
  const LABELLED = 6;  // contacts whose numbers are shown in the picture
  const MARGIN = 0.05;  // of the picture's size, around it
  const TIP = 0.12;  // of the picture's size: how far a body that tips is shown to move
  const svg = document.getElementById('picture');
  const { picture, load } = CDOPT;
  const DIM = picture ? picture.heads[0].length : 2;
  const dot = (a, b) => a.reduce((sum, x, d) => sum + x * b[d], 0);

  function add(tag, attributes, text) {
    const made = document.createElementNS(NS, tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    if (text !== undefined) made.textContent = text;
    svg.appendChild(made);
    return made;
  }

  const fixed = (x) => Number(x).toPrecision(6);
  const corners = (points) => points.map((p) => p.map(fixed).join(',')).join(' ');

  // --- views of space ------------------------------------------------------------------

  // To the right and down on the screen, and towards the reader; angles in degrees.
  function axes([turn, tilt]) {
    if (DIM === 2) return [[1, 0], [0, -1], [0, 0]];
    const [c, s] = [Math.cos((turn * Math.PI) / 180), Math.sin((turn * Math.PI) / 180)];
    const [ct, st] = [Math.cos((tilt * Math.PI) / 180), Math.sin((tilt * Math.PI) / 180)];
    return [[c, s, 0], [s * st, -c * st, -ct], [s * ct, -c * ct, st]];
  }

  const minus = (a, b) => a.map((x, d) => x - b[d]);
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];

  // Every shape with its points and, of flat faces in space, their normals out of the body.
  const SHAPES = (picture ? picture.shapes : []).map((shape) => {
    const points = shape.centre ? [shape.centre] : shape.prop ? [shape.prop]
      : shape.outline || shape.cloud || shape.rings.flat();
    const faces = (shape.rings || []).map((ring) => {
      const normal = cross(minus(ring[1], ring[0]), minus(ring[2], ring[0]));
      const size = Math.hypot(...normal) || 1;
      return { ring, normal: normal.map((x) => x / size) };
    });
    const middle = points[0].map((_, d) => points.reduce((s, p) => s + p[d], 0) / points.length);
    return { ...shape, points, faces, middle };
  });

  // 1 if b may cover a, −1 if a may cover b, 0 if no face's plane separates them.
  function front(a, b, toReader) {
    let [best, answer] = [-0.02, 0];
    [[a, b, 1], [b, a, -1]].forEach(([one, other, sign]) => one.faces.forEach(({ ring, normal }) => {
      const along = other.points.map((p) => dot(normal, minus(p, ring[0])));
      const [low, high] = [Math.min(...along) - (other.radius || 0), Math.max(...along) + (other.radius || 0)];
      const height = low / (high - low || 1);
      if (height > best) [best, answer] = [height, dot(normal, toReader) > 0 ? sign : -sign];
    }));
    return answer;
  }

  // Shapes of space from the back to the front: floors, then bodies, no one over one before it.
  function ordered(toReader) {
    const under = SHAPES.filter((s) => s.outline || s.prop);
    const bodies = SHAPES.filter((s) => !s.outline && !s.prop)
      .sort((a, b) => dot(a.middle, toReader) - dot(b.middle, toReader));
    const covers = bodies.map(() => new Set());
    bodies.forEach((a, i) => bodies.slice(0, i).forEach((b, j) => {
      if (front(b, a, toReader) < 0) covers[j].add(i); else covers[i].add(j);
    }));
    const left = new Set(bodies.keys());
    const out = [];
    while (left.size) {
      const next = [...left].find((i) => ![...covers[i]].some((j) => left.has(j)));
      const k = next === undefined ? left.values().next().value : next;
      left.delete(k);
      out.push(bodies[k]);
    }
    return [...under, ...out];
  }

  function hull(points) {  // convex, of points on the screen
    const sorted = points.slice().sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const half = (list) => list.reduce((chain, p) => {
      while (chain.length > 1) {
        const [a, b] = chain.slice(-2);
        if ((b[0] - a[0]) * (p[1] - a[1]) > (b[1] - a[1]) * (p[0] - a[0])) break;
        chain.pop();
      }
      return [...chain, p];
    }, []).slice(0, -1);
    return [...half(sorted), ...half(sorted.reverse())];
  }

  // What is needed of a view: projection, order of the shapes, and the box around everything.
  let view = null;
  function look(angles) {
    if (view && view.key === angles.join()) return view;
    const [right, down, toReader] = axes(angles);
    const flat = (p) => [dot(right, p), dot(down, p)];
    const up = DIM === 2 ? [0, 1] : [0, 0, 1];
    const seen = [];
    SHAPES.forEach(({ points, radius = 0, tall = 0 }) => points.map(flat).forEach(([x, y]) => seen.push(
      [x - radius, y - radius], [x + radius, y + radius + 1.3 * tall])));
    const along = (p, way, far) => p.map((x, d) => x + far * way[d]);
    picture.contacts.forEach(({ at, push, inside }) => {
      if (!inside) seen.push(flat(along(at, push, -picture.long)));
    });
    picture.heads.forEach((p) => seen.push(flat(along(p, up, 1.15 * picture.long))));
    const low = [0, 1].map((d) => Math.min(...seen.map((p) => p[d])));
    const high = [0, 1].map((d) => Math.max(...seen.map((p) => p[d])));
    const room = MARGIN * Math.hypot(high[0] - low[0], high[1] - low[1]);
    const box = [low[0] - room, low[1] - room, high[0] - low[0] + 2 * room, high[1] - low[1] + 2 * room];
    const shapes = DIM === 2 ? SHAPES : ordered(toReader);
    view = { key: angles.join(), flat, right, down, toReader, box, shapes };
    return view;
  }

  // --- bodies, arrows, texts -----------------------------------------------------------

  function arrow(tail, head, wide, kind) {
    const [dx, dy] = [head[0] - tail[0], head[1] - tail[1]];
    const long = Math.hypot(dx, dy);
    if (!(long > 0.5 * wide)) return;
    const [x, y] = [dx / long, dy / long];
    const tip = Math.min(3.2 * wide, long);
    const neck = [head[0] - tip * x, head[1] - tip * y];
    add('line', { x1: tail[0], y1: tail[1], x2: neck[0], y2: neck[1], 'stroke-width': wide, class: kind });
    add('polygon', {
      points: corners([head, [neck[0] - 1.4 * wide * y, neck[1] + 1.4 * wide * x],
        [neck[0] + 1.4 * wide * y, neck[1] - 1.4 * wide * x]]),
      class: kind, 'stroke-width': 0,
    });
  }

  // How far a platform that tips has moved up at a point: `motion` drives it off its supports.
  function tipping(motion) {
    if (!motion || load.kind !== 'weight') return () => 0;
    const rate = [load.base, ...load.ways].map((row) => dot(row, motion));
    const rise = (p) => rate.slice(1).reduce((sum, x, d) => sum + x * p[d], rate[0]);
    const most = Math.max(...picture.heads.map((p) => Math.abs(rise(p)))) || 1;
    return (p) => (TIP * view.box[2] * rise(p)) / most;
  }

  function bodies(pixel, lift) {
    const { flat, toReader, shapes } = view;
    shapes.forEach((shape) => {
      const kind = { class: shape.fixed ? 'fixed' : 'free', 'stroke-width': pixel, 'stroke-linejoin': 'round' };
      const moved = (p) => (shape.fixed ? p : p.map((x, d) => (d === DIM - 1 ? x + lift(p) : x)));
      const place = (p) => flat(moved(p));
      if (shape.centre) {
        const [cx, cy] = place(shape.centre);
        add('circle', { cx, cy, r: shape.radius, ...kind });
      } else if (shape.prop) {
        const [[x, y], t] = [flat(shape.prop), shape.tall];
        add('polygon', { points: corners([[x, y], [x - 0.6 * t, y + t], [x + 0.6 * t, y + t]]), ...kind });
      } else if (shape.faces.length) {
        shape.faces.filter(({ normal }) => dot(normal, toReader) > 0).forEach(({ ring }) => {
          add('polygon', { points: corners(ring.map(place)), ...kind });
        });
      } else {
        const ring = shape.points.map(place);
        add('polygon', { points: corners(shape.cloud ? hull(ring) : ring), ...kind });
      }
    });
  }

  // Where the load's arrow begins, and where it points; null where it has no place.
  function loaded(values) {
    const place = picture.heads[0].slice();
    if (load.kind === 'weight') {
      values.slice(1).forEach((x, d) => { place[d] = x; });
      return { place, way: place.map((_, d) => (d === DIM - 1 ? -1 : 0)), share: values[0] / load.high[0] };
    }
    if (load.kind !== 'gravity') return null;
    return { place, way: CdoptLoad.direction(values), share: values[0] / load.high[0] };
  }

  const reach = (share) => picture.long * (0.25 + 0.75 * share);

  function drawLoad(values, pixel, lift, label, texts) {
    const now = loaded(values);
    if (!now || !(values[0] > 0)) return;
    const head = now.place.map((x, d) => (d === DIM - 1 ? x + lift(now.place) : x));
    const tail = head.map((x, d) => x - reach(now.share) * now.way[d]);
    const [to, from] = [view.flat(head), view.flat(tail)];
    arrow(from, to, pixel * 5, 'load');
    add('line', { x1: from[0], y1: from[1], x2: to[0], y2: to[1], 'stroke-width': 30 * pixel, class: 'grip' });
    const words = load.kind === 'weight' ? label(values[0]) : `load × ${Number(values[0].toPrecision(3))}`;
    texts.push([from[0], from[1] - 6 * pixel, words, 'of-load']);
  }

  function drawForces(force, top, pixel, label, texts) {
    const few = picture.contacts.length <= LABELLED;
    picture.contacts.forEach(({ at, push, inside }, i) => {
      const f = force ? force[i] : 0;
      if (!(f > 1e-6 * top)) return;
      const ends = (back, on) => [-back, on].map((far) => view.flat(at.map((x, d) => x + far * push[d])));
      if (inside) {
        const [[x1, y1], [x2, y2]] = ends(0.5 * picture.bar, 0.5 * picture.bar);
        const wide = pixel * (1 + 8 * (f / top));
        add('line', { x1, y1, x2, y2, 'stroke-width': wide + 2.5 * pixel, class: 'halo' });
        add('line', { x1, y1, x2, y2, 'stroke-width': wide, class: 'bar' });
        return;
      }
      const [tail, head] = ends((picture.long * f) / top, 0);
      arrow(tail, head, pixel * (few ? 4 : 2.5), 'force');
      if (few) texts.push([tail[0], tail[1] + (tail[1] < head[1] ? -6 : 15) * pixel, label(f), '']);
    });
  }

  function write(texts, pixel) {
    const put = [];
    texts.forEach(([x, from, words, kind]) => {
      let y = from;
      while (put.some(([a, b]) => Math.abs(a - x) < 62 * pixel && Math.abs(b - y) < 13 * pixel)) {
        y += 3 * pixel;
      }
      y = Math.min(y, view.box[1] + view.box[3] - 4 * pixel);
      put.push([x, y]);
      add('text', { x, y, 'font-size': 13 * pixel, 'stroke-width': 3 * pixel, class: kind }, words);
    });
  }

  // values: of the load's sliders; angles: of the view; force: (nc,) or null where there is none, and
  // then `motion` drives the bodies; top: the force whose arrow is longest; near: a contact or −1.
  function draw({ values, angles, force, motion, top, label, near }) {
    if (!picture) return;
    svg.replaceChildren();
    const { box, flat } = look(angles);
    const [, , w, h] = box;
    svg.setAttribute('viewBox', box.map(fixed).join(' '));
    svg.style.aspectRatio = `${fixed(w)} / ${fixed(h)}`;
    const pixel = Math.max(w / (svg.clientWidth || 600), h / (svg.clientHeight || 400));
    const [lift, texts] = [tipping(motion), []];
    bodies(pixel, lift);
    drawForces(force, top, pixel, label, texts);
    if (near >= 0) {
      const [cx, cy] = flat(picture.contacts[near].at);
      add('circle', { cx, cy, r: 13 * pixel, 'stroke-width': 3 * pixel, class: 'near' });
    }
    drawLoad(values, pixel, lift, label, texts);
    write(texts, pixel);
  }

  // --- dragging ------------------------------------------------------------------------

  // The level way (x, or x and y) that looks like a way on the screen.
  function level([x, y]) {
    if (DIM === 2) return [x];
    const [[a, b], [c, d]] = [view.right, view.down];
    const size = a * d - b * c;
    return [(d * x - b * y) / size, (a * y - c * x) / size];
  }

  // The sliders' values after the load's arrow, grabbed at `values`, was dragged by a way.
  function dragged(values, way) {
    const by = level(way);
    if (load.kind === 'weight') return [values[0], ...by.map((x, d) => values[d + 1] + x)];
    const now = loaded(values);
    const long = reach(now.share);
    if (DIM === 2) {
      const [x, y] = [long * now.way[0] - way[0], -long * now.way[1] - way[1]];
      return [values[0], (Math.atan2(x, y) * 180) / Math.PI];
    }
    const [x, y] = by.map((step, d) => now.way[d] - step / long);
    const lean = (Math.asin(Math.min(Math.hypot(x, y), 1)) * 180) / Math.PI;
    return [values[0], lean, ((Math.atan2(y, x) * 180) / Math.PI + 360) % 360];
  }

  // Calls `change` with the load's values or the view's angles while they are dragged.
  function listen(now, change) {
    if (!picture) return;
    const space = DIM === 3;
    const place = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return [at.x, at.y];
    };
    let grabbed = null;
    svg.classList.toggle('turns', space);
    svg.addEventListener('pointerdown', (event) => {
      const what = event.target.getAttribute('class') === 'grip' ? 'load' : space ? 'angles' : null;
      if (!what) return;
      event.preventDefault();
      svg.setPointerCapture(event.pointerId);
      grabbed = { what, ...now(), from: place(event), x: event.clientX, y: event.clientY };
    });
    svg.addEventListener('pointermove', (event) => {
      if (!grabbed) return;
      if (grabbed.what === 'load') {
        change('load', dragged(grabbed.load, minus(place(event), grabbed.from)));
      } else {
        const [turn, tilt] = grabbed.angles;
        change('angles', [turn - 0.4 * (event.clientX - grabbed.x), tilt + 0.4 * (event.clientY - grabbed.y)]);
      }
    });
    ['pointerup', 'pointercancel'].forEach((name) => svg.addEventListener(name, () => { grabbed = null; }));
    if (!space) return;
    svg.setAttribute('tabindex', '0');
    svg.addEventListener('keydown', (event) => {
      const by = { ArrowLeft: [5, 0], ArrowRight: [-5, 0], ArrowUp: [0, 5], ArrowDown: [0, -5] }[event.key];
      if (!by) return;
      event.preventDefault();
      change('angles', now().angles.map((x, d) => x + by[d]));
    });
  }

  return { draw, listen, space: DIM === 3 };
})();
