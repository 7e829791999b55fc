// The picture: bodies, contact forces and the load, as SVG in metres.
const CdoptDrawing = (() => {
  const NS = 'http://www.w3.org/2000/svg';
  const LABELLED = 6;  // contacts whose numbers stand in the picture
  const svg = document.getElementById('picture');
  const { picture, load } = CDOPT;

  function add(tag, attributes, text) {
    const made = document.createElementNS(NS, tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    if (text !== undefined) made.textContent = text;
    svg.appendChild(made);
    return made;
  }

  const fixed = (x) => Number(x).toPrecision(6);
  const corners = (points) => points.map((p) => p.map(fixed).join(',')).join(' ');

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

  // Where the load points, and where it stands: on the screen.
  function loaded(values) {
    const along = (place) => picture.view.map((row) => row.reduce((s, x, d) => s + x * place[d], 0));
    const place = picture.anchor.slice();
    const down = place.map((_, d) => (d === place.length - 1 ? -1 : 0));
    if (load.kind === 'weight') {
      values.slice(1).forEach((x, d) => { place[d] = x; });
      return { head: along(place), way: along(down), share: values[0] / load.high[0] };
    }
    if (load.kind !== 'gravity') return null;
    const way = CdoptLoad.direction(values);
    return { head: along(place), way: along(way), share: values[0] / load.high[0] };
  }

  // force: (nc,) or null where there is none; top: the force whose arrow is longest; near: the
  // contact to be ringed, or −1.
  function draw(values, force, top, label, near) {
    if (!picture) return;
    svg.replaceChildren();
    const [, , w, h] = picture.box;
    svg.setAttribute('viewBox', picture.box.map(fixed).join(' '));
    svg.style.aspectRatio = `${fixed(w)} / ${fixed(h)}`;
    const pixel = Math.max(w / (svg.clientWidth || 600), h / (svg.clientHeight || 400));
    picture.shapes.forEach((shape) => {
      const kind = { class: shape.fixed ? 'fixed' : 'free', 'stroke-width': pixel };
      if (shape.circle) {
        add('circle', { cx: shape.circle[0], cy: shape.circle[1], r: shape.circle[2], ...kind });
      } else add('polygon', { points: corners(shape.outline), 'stroke-linejoin': 'round', ...kind });
    });
    const few = picture.contacts.length <= LABELLED;
    const texts = [];
    picture.contacts.forEach(({ at, push, inside }, i) => {
      const f = force ? force[i] : 0;
      if (!(f > 1e-6 * top)) return;
      const share = f / top;
      const reach = picture.long * share;
      if (inside) {
        const half = 0.5 * picture.long;
        add('line', {
          x1: at[0] - half * push[0], y1: at[1] - half * push[1], x2: at[0] + half * push[0],
          y2: at[1] + half * push[1], 'stroke-width': pixel * (0.6 + 8 * share), class: 'force',
        });
      } else {
        const tail = [at[0] - reach * push[0], at[1] - reach * push[1]];
        arrow(tail, at, pixel * (few ? 4 : 2.5), 'force');
        if (few) texts.push([tail[0], tail[1] + (push[1] < 0 ? 15 : -6) * pixel, label(f), '']);
      }
    });
    if (near >= 0) {
      const [cx, cy] = picture.contacts[near].at;
      add('circle', { cx, cy, r: 13 * pixel, 'stroke-width': 3 * pixel, class: 'near' });
    }
    const now = loaded(values);
    if (now && values[0] > 0) {
      const reach = picture.long * (0.25 + 0.75 * now.share);
      const tail = [now.head[0] - reach * now.way[0], now.head[1] - reach * now.way[1]];
      arrow(tail, now.head, pixel * 5, 'load');
      const words = load.kind === 'weight' ? label(values[0])
        : `load × ${Number(values[0].toPrecision(3))}`;
      texts.push([tail[0], tail[1] - 6 * pixel, words, 'of-load']);
    }
    const put = [];
    texts.forEach(([x, from, words, kind]) => {
      let y = from;
      while (put.some(([a, b]) => Math.abs(a - x) < 62 * pixel && Math.abs(b - y) < 13 * pixel)) {
        y += 3 * pixel;
      }
      y = Math.min(y, picture.box[1] + h - 4 * pixel);
      put.push([x, y]);
      add('text', { x, y, 'font-size': 13 * pixel, 'stroke-width': 3 * pixel, class: kind }, words);
    });
  }

  return { draw };
})();
