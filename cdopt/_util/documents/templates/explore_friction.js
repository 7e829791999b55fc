"use strict";
// Intervals of normal and tangential forces at the values that the sliders choose.
const KINDS = ["normal", "tangential"];

function extent(states, kind) {  // of all values, so that the scale does not move
  let low = 0, high = 0;
  for (const state of states) {
    for (const row of state.rows || []) {
      for (const x of [row.lower[kind], row.upper[kind]]) {
        if (x !== null) { low = Math.min(low, x); high = Math.max(high, x); }
      }
    }
  }
  return [low, high > low ? high : low + 1];
}

const VALUES = CONTENT.states.length / CONTENT.pushes.length;  // of μ
const slider = (name) => document.getElementById(name);
const chosen = () => CONTENT.states[VALUES * Number(slider("push").value) + Number(slider("mu").value)];
const load = () => Number(slider("load").value);
const EXTENTS = KINDS.map((_, kind) => extent(CONTENT.states, kind).map((x) => CONTENT.heaviest * x));
const elastic = (row) => row.coulomb || row.haar || null;  // (2,) forces that elastic contacts carry
const number = (x) => x === null ? "∞"
  : x.toLocaleString("en", { maximumSignificantDigits: 4 }).replace("-", "−");

function element(tag, className, parent) {
  const made = document.createElement(tag);
  made.className = className;
  parent.append(made);
  return made;
}

function scale(row, kind, parent) {
  const pair = element("div", "pair", parent), [low, high] = EXTENTS[kind];
  element("span", "kind", pair).textContent = KINDS[kind];
  const bar = element("div", "scale", pair);
  const at = (x) => 100 * (x - low) / (high - low), times = (x) => x === null ? null : load() * x;
  const [from, to] = [times(row.lower[kind]), times(row.upper[kind])];
  const band = element("div", to === null ? "band open" : "band", bar);
  band.style.left = `${at(from === null ? low : from)}%`;
  band.style.right = `${100 - at(to === null ? high : to)}%`;
  element("div", "zero", bar).style.left = `${at(0)}%`;
  for (const name of ["haar", "coulomb"]) {
    if (row[name]) element("div", name, bar).style.left = `${at(times(row[name][kind]))}%`;
  }
  element("output", "", pair).textContent = `${from === null ? "−∞" : number(from)} to ${number(to)} N`;
}

// --- the picture ---------------------------------------------------------------------------

const LONG = 0.16;  // of the picture's size: the arrow of the largest force at the loads' own size
const force = (i, row) => [0, 1].map((d) =>  // on the body that moves
  elastic(row)[0] * CONTENT.picture.normals[i][d] + elastic(row)[1] * CONTENT.picture.tangents[i][d]);

function loaded({ at, force: [x, y], torque, weight }, push) {  // on its line of action
  const way = [x + push * weight, y], size = Math.hypot(...way);
  if (!(size > 0)) return null;
  const arm = torque / (size * size);
  return { way, at: [at[0] + arm * way[1], at[1] - arm * way[0]] };
}

function largest() {  // N, of what arrows show at the first state
  const rows = CONTENT.states[CONTENT.start].rows || [], { loads, tangents } = CONTENT.picture;
  const sizes = loads.map((body) => Math.hypot(...body.force));
  if (tangents.length) rows.forEach((row) => { if (elastic(row)) sizes.push(Math.hypot(...elastic(row))); });
  return Math.max(...sizes, 0) || 1;
}

// The bodies, where they touch, and forces; `near` is the contact pointed at in the list, or −1.
function draw(near) {
  const svg = document.getElementById("picture");
  if (!svg) return;
  const add = (tag, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    if (text) { const title = document.createElementNS(made.namespaceURI, "title"); title.textContent = text; made.append(title); }
    svg.append(made);
    return made;
  };
  const look = (body) => ({ class: body.fixed ? "fixed" : "free", "vector-effect": "non-scaling-stroke" });
  svg.replaceChildren();
  for (const body of CONTENT.picture.shapes) {
    if (body.centre) add("circle", { cx: body.centre[0], cy: -body.centre[1], r: body.radius, ...look(body) });
    else add("polygon", { points: body.outline.map(([x, y]) => `${x},${-y}`).join(" "), ...look(body) });
  }
  CONTENT.picture.contacts.forEach(([cx, cy]) => add("circle", { cx, cy: -cy, r: 0 }));
  const { x, y, width, height } = svg.getBBox(), size = Math.hypot(width, height) || 1, r = 0.009 * size;
  const room = 0.9 * LONG * size;
  svg.setAttribute("viewBox", [x - room, y - room, width + 2 * room, height + 2 * room].join(" "));
  const scale = LONG * size / largest();
  const arrow = ([fx, fy], [tx, ty], kind, text) => {
    const long = Math.hypot(tx - fx, ty - fy), wide = 0.006 * size;
    if (!(long > wide)) return;
    const [u, v] = [(tx - fx) / long, (ty - fy) / long], tip = Math.min(3.5 * wide, long);
    const [nx, ny] = [tx - tip * u, ty - tip * v];
    add("line", { x1: fx, y1: -fy, x2: nx, y2: -ny, "stroke-width": wide, class: kind }, text);
    add("polygon", { points: `${tx},${-ty} ${nx - 1.4 * wide * v},${-(ny + 1.4 * wide * u)} ${nx + 1.4 * wide * v},${-(ny - 1.4 * wide * u)}`,
      "stroke-width": 0, class: kind }, text);
  };
  const state = chosen(), rows = state.rows || [], { contacts, inside, tangents, loads } = CONTENT.picture;
  loads.map((body) => loaded(body, state.push)).filter(Boolean).forEach(({ way, at }) => {
    const tail = at.map((c, d) => c - load() * scale * way[d]);
    arrow(tail, at, "load", `load ${number(load() * Math.hypot(...way))} N`);
  });
  contacts.forEach(([cx, cy], i) => {
    const known = rows[i] && elastic(rows[i]) && tangents.length ? force(i, rows[i]).map((c) => load() * c) : null;
    if (known) {
      const text = `${CONTENT.names[i]}: ${number(Math.hypot(...known))} N`;
      const back = [cx - scale * known[0], cy - scale * known[1]];
      if (!inside[i]) arrow(back, [cx, cy], "force", text);
      else {  // both bodies move: a line through the contact
        const half = known.map((c) => 0.5 * scale * c);
        add("line", { x1: cx - half[0], y1: -(cy - half[1]), x2: cx + half[0], y2: -(cy + half[1]),
          "stroke-width": 0.006 * size, class: "force" }, text);
      }
    }
    add("circle", { cx, cy: -cy, r: i === near ? 2 * r : r, class: "contact" }, CONTENT.names[i]);
  });
  const about = tangents.length ? "arrows: forces of elastic contacts on the body that moves" : "";
  document.getElementById("arrows").textContent = about + (loads.length ? `${about ? ", and " : "arrows: "}the loads` : "");
}

// --- the page ------------------------------------------------------------------------------

function show() {
  const state = chosen();
  document.getElementById("mu-value").textContent = state.mu.toFixed(2);
  document.getElementById("push-value").textContent = state.push.toFixed(1).replace("-", "−");
  document.getElementById("load-value").textContent = load().toFixed(2);
  const summary = document.getElementById("summary");
  summary.textContent = state.summary + (load() === 1 ? "" : " This sentence is about loads times 1.");
  summary.className = state.rests ? "" : "none";
  const list = document.getElementById("contacts");
  list.replaceChildren();
  (state.rows || []).forEach((row, i) => {
    const item = element("li", "", list);
    item.addEventListener("pointerenter", () => draw(i));
    item.addEventListener("pointerleave", () => draw(-1));
    element("div", "name", item).textContent = `${CONTENT.names[i]}: ${row.status}`;
    KINDS.forEach((_, kind) => scale(row, kind, item));
  });
  draw(-1);
  document.body.dataset.shown = state.mu;
}

// What the address asks for, #mu=0.3&push=0.1&load=2; else the problem's own.
const nearest = (values, asked) => values.reduce((a, x, i) => Math.abs(x - asked) < Math.abs(values[a] - asked) ? i : a, 0);
const given = new URLSearchParams(location.hash.slice(1));
const asked = (name, own) => given.has(name) && Number.isFinite(Number(given.get(name))) ? Number(given.get(name)) : own;
slider("mu").value = nearest(CONTENT.states.slice(0, VALUES).map((s) => s.mu), asked("mu", CONTENT.states[CONTENT.start].mu));
slider("push").value = nearest(CONTENT.pushes, asked("push", 0));
slider("load").value = asked("load", 1);
["mu", "push", "load"].forEach((name) => slider(name).addEventListener("input", show));
show();
