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
