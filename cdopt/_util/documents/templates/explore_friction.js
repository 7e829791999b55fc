"use strict";
// Intervals of normal and tangential forces at the value of μ that the slider chooses.
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

const EXTENTS = KINDS.map((_, kind) => extent(CONTENT.states, kind));
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
  const at = (x) => 100 * (x - low) / (high - low);
  const [from, to] = [row.lower[kind], row.upper[kind]];
  const band = element("div", to === null ? "band open" : "band", bar);
  band.style.left = `${at(from === null ? low : from)}%`;
  band.style.right = `${100 - at(to === null ? high : to)}%`;
  element("div", "zero", bar).style.left = `${at(0)}%`;
  for (const name of ["haar", "coulomb"]) {
    if (row[name]) element("div", name, bar).style.left = `${at(row[name][kind])}%`;
  }
  element("output", "", pair).textContent = `${from === null ? "−∞" : number(from)} to ${number(to)} N`;
}

// The bodies, and where they touch; `near` is the contact pointed at in the list, or −1.
function draw(near) {
  const svg = document.getElementById("picture");
  if (!svg) return;
  const add = (tag, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    if (text) { const title = document.createElementNS(made.namespaceURI, "title"); title.textContent = text; made.append(title); }
    svg.append(made);
  };
  const look = (body) => ({ class: body.fixed ? "fixed" : "free", "vector-effect": "non-scaling-stroke" });
  svg.replaceChildren();
  for (const body of CONTENT.picture.shapes) {
    if (body.centre) add("circle", { cx: body.centre[0], cy: -body.centre[1], r: body.radius, ...look(body) });
    else add("polygon", { points: body.outline.map(([x, y]) => `${x},${-y}`).join(" "), ...look(body) });
  }
  const { x, y, width, height } = svg.getBBox(), r = 0.011 * Math.hypot(width, height);
  CONTENT.picture.contacts.forEach(([cx, cy], i) => {
    add("circle", { cx, cy: -cy, r: i === near ? 2 * r : r, class: "contact" }, CONTENT.names[i]);
  });
  svg.setAttribute("viewBox", [x - 2 * r, y - 2 * r, width + 4 * r, height + 4 * r].join(" "));
}

function show() {
  const state = CONTENT.states[Number(document.getElementById("mu").value)];
  document.getElementById("mu-value").textContent = state.mu.toFixed(2);
  const summary = document.getElementById("summary");
  summary.textContent = state.summary;
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
  document.body.dataset.shown = state.mu;
}

document.getElementById("mu").addEventListener("input", show);
const asked = Number(new URLSearchParams(location.hash.slice(1)).get("mu"));
if (asked) {
  const near = (i) => Math.abs(CONTENT.states[i].mu - asked);
  const every = CONTENT.states.map((_, i) => i);
  document.getElementById("mu").value = every.reduce((a, b) => near(b) < near(a) ? b : a);
}
show();
draw(-1);
