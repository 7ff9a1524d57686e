// @ts-check
// Draws the page from the packed tables that lakeprobe/view/page.py put into it.
// What comes from a dump goes into the document through textContent only.
"use strict";

/**
 * @typedef {Int8Array | Int16Array | Int32Array | Float32Array | Float64Array} Column
 * @typedef {Record<string, any>} Row
 * @typedef {{head: Row, text: (number: number) => string, columns: Record<string, Column>}} Table
 * @typedef {{step: number, rank: number, golden_step: number, golden_rank: number, ops: number, counts: number[],
 *   table: number | null, page: string | null}} Unit
 * @typedef {Table & {number: number, size: number, ends: Int32Array, depths: Int16Array, worst: Int8Array,
 *   names: string[], firstLeaf: Int32Array, ops: number[], byTarget: Map<number, number>,
 *   byGolden: Map<number, number>, byName: Map<string, number>, takers: Map<number, number[]> | null}} Model
 */

const SIGNS = ["·", "=", "≈", "≠", "∅", "!", "?", "✕"];
const ROW = 28;
const LEAST = 1e-9;
const LONG = 300; // characters of a name that a row shows; the panel shows all
const STATISTICS = ["max", "min", "mean", "norm"];
const KINDS = { Int8: Int8Array, Int16: Int16Array, Int32: Int32Array, Float32: Float32Array, Float64: Float64Array };

// ---- packed tables --------------------------------------------------------------------------------------------------

/** @param {string} id @returns {Promise<Table>} */
async function unpack(id) {
  const element = byId(id);
  const coded = atob(element.textContent || "");
  element.textContent = ""; // its memory
  const bytes = Uint8Array.from(coded, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new (/** @type {any} */ (window).DecompressionStream)("gzip"));
  const whole = await new Response(stream).arrayBuffer();
  const length = new DataView(whole).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(whole, 4, length)));
  /** @type {Record<string, Column>} */
  const columns = {};
  for (const [name, [kind, offset, count]] of Object.entries(head.columns)) {
    columns[name] = new KINDS[/** @type {keyof KINDS} */ (kind[0].toUpperCase() + kind.slice(1))](whole, 4 + length + offset, count);
  }
  const texts = /** @type {string[]} */ (head.texts);
  return { head, columns, text: (number) => (number < 0 ? "" : texts[number]) };
}

/** The tables of one step and rank, with what follows from them. Nodes are numbered from the top of the tree.
 * @param {number} number @returns {Promise<Model>} */
async function unpackModel(number) {
  const table = await unpack(`unit-${number}`);
  const { columns: c, text } = table;
  const size = table.head.nodes;
  const ends = new Int32Array(size), depths = new Int16Array(size), worst = Int8Array.from(c.level);
  const names = new Array(size), ops = [], byTarget = new Map(), byGolden = new Map(), byName = new Map();
  for (let node = 0; node < size; node++) {
    ends[node] = node + 1;
    depths[node] = c.parent[node] < 0 ? 0 : depths[c.parent[node]] + 1;
    names[node] = text(c.target_op[node]) || text(c.golden_op[node]) || text(c.label[node]);
    if (c.target_seq[node] >= 0) byTarget.set(c.target_seq[node], node);
    if (c.golden_seq[node] >= 0) byGolden.set(c.golden_seq[node], node);
    if (!byName.has(names[node])) byName.set(names[node], node);
  }
  for (let node = size - 1; node >= 0; node--) {
    const parent = c.parent[node];
    if (parent >= 0) {
      ends[parent] = Math.max(ends[parent], ends[node]);
      worst[parent] = Math.max(worst[parent], worst[node]);
    }
  }
  for (let node = 0; node < size; node++) {
    if (ends[node] === node + 1 && (c.target_seq[node] >= 0 || c.golden_seq[node] >= 0)) ops.push(node);
  }
  const firstLeaf = new Int32Array(size + 1).fill(-1);
  for (let leaf = c.leaf_node.length - 1; leaf >= 0; leaf--) firstLeaf[Math.max(0, c.leaf_node[leaf])] = leaf;
  return { ...table, number, size, ends, depths, worst, names, ops, byTarget, byGolden, byName, firstLeaf, takers: null };
}

// ---- the document ---------------------------------------------------------------------------------------------------

/** @param {string} id @returns {any} */
function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** @param {string} tag @param {Row} [fields] @param {(Node | string)[]} children @returns {any} */
function make(tag, fields = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/** @param {string} text @param {() => void} act @param {string} [kind] */
function link(text, act, kind = "link") {
  return make("button", { type: "button", class: kind, text, onclick: act });
}

/** Write a name so that it may break after its dots.
 * @param {HTMLElement} element @param {string} name */
function breakable(element, name) {
  name.split(".").forEach((part, index, parts) => element.append(index < parts.length - 1 ? `${part}.` : part, document.createElement("wbr")));
  return element;
}

/** @param {number} level */
function sign(level) {
  return make("span", { class: `sign level-${Math.max(0, level)}`, text: SIGNS[Math.max(0, level)], "aria-hidden": "true" });
}

/** @param {any} value */
function number(value) {
  if (value === null || value === undefined) return "";
  const real = Number(value === "inf" ? Infinity : value === "-inf" ? -Infinity : value);
  if (Number.isNaN(real)) return "NaN";
  if (!Number.isFinite(real)) return real > 0 ? "∞" : "−∞";
  if (real === 0) return "0";
  const size = Math.abs(real);
  return (size >= 1e-3 && size < 1e5 ? String(Number(real.toPrecision(3))) : real.toExponential(1)).replace("-", "−");
}

/** A statistic with the digits that float32 has, or all where it differs from the other side's and would look the same;
 * null: it was not recorded.
 * @param {number | null} value @param {number | null} other */
function statistic(value, other) {
  if (value === null) return "–";
  if (!Number.isFinite(value)) return number(value);
  return other !== null && other !== value && inFewDigits(other) === inFewDigits(value) ? String(value) : inFewDigits(value);
}

/** @param {number} value */
function inFewDigits(value) {
  const size = Math.abs(value);
  const digits = innerWidth < 500 ? 6 : 8;
  return size !== 0 && (size < 1e-4 || size >= 1e7) ? value.toExponential(digits - 4) : String(Number(value.toPrecision(digits)));
}

/** @param {number} number @param {string} one @param {string} many */
function counted(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}

/** @param {string} text */
function shortened(text) {
  return text.length > LONG ? text.slice(0, LONG) + "…" : text;
}

/** The name of an op in few letters: its function and call, or the last part of a module's path.
 * @param {string} op */
function brief(op) {
  const parts = op.replace(/\.(forward|backward)$/, "").split(".");
  if (/^(Module|Cell)$/.test(parts[0])) return shortened(op.replace(/^(Module|Cell)\./, "").replace(/\.[^.]*\.(forward|backward|parameters_grad)(\.\d+)?$/, ""));
  if (!/^[A-Z]/.test(op)) return shortened(op); // a parameter, a setting or a saved value: no type stands before its name
  return shortened(parts.slice(1).join(".") || op);
}

/** @param {string} name */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// ---- state ----------------------------------------------------------------------------------------------------------

/** @type {Table} */ let overview;
/** @type {Model} */ let model;
/** @type {Map<number, Promise<Model>>} */ const models = new Map();
/** @type {Unit[]} */ let units = [];
let unitNumber = -1;
/** @type {Uint8Array} */ let opened = new Uint8Array(0);
/** @type {Uint8Array | null} */ let kept = null; // the nodes that the filter leaves; null: all
/** @type {Uint8Array | null} */ let openBefore = null; // what was open before the filter
/** @type {number[]} */ let shown = []; // the nodes in the tree's rows, from the top
let chosen = -1, cause = -1, isPrinting = false, scope = -1;
/** @type {Map<number, number>} */ let hops = new Map(); // node → place on the path to the loss, from 1
const hiddenLevels = new Set();
/** @type {{node: number, x: number, y: number}[]} */ let points = [];

const said = () => overview.head.answer;
const isRun = () => overview.head.kind === "run";

// ---- start ----------------------------------------------------------------------------------------------------------

async function start() {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  overview = await unpack("overview");
  units = overview.head.units;
  const { name, target, golden } = overview.head;
  document.title = `${shortened(name)} – lakeprobe`;
  byId("names").textContent = golden ? `${shortened(target)} against ${shortened(golden)}` : shortened(name);
  fillUnits();
  drawAnswer();
  drawLegend();
  if (document.readyState === "loading") await new Promise((done) => document.addEventListener("DOMContentLoaded", done));
  listen();
  await follow(location.hash);
  document.documentElement.dataset.ready = "true";
}

function fillUnits() {
  const select = byId("unit");
  const several = new Set(units.map((unit) => unit.step)).size > 1;
  units.forEach((unit, index) => {
    const label = `${several ? `step ${unit.step}, ` : ""}rank ${unit.rank}${unit.table !== null ? "" : unit.page ? " (own page)" : " (overview only)"}`;
    select.append(make("option", { value: index, text: label, disabled: isInReach(unit) ? null : "" }));
  });
  if (units.length < 2) select.closest("label").hidden = true;
  select.addEventListener("change", () => void choose(Number(select.value), -1));
}

function listen() {
  addEventListener("hashchange", () => void follow(location.hash));
  addEventListener("resize", () => { drawFlow(); drawRows(); });
  addEventListener("beforeprint", () => { isPrinting = true; drawRows(); });
  addEventListener("afterprint", () => { isPrinting = false; drawRows(); });
  byId("theme").addEventListener("click", () => {
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    drawFlow();
    drawMap();
  });
  byId("help").addEventListener("click", showKeys);
  let waiting = 0;
  byId("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  byId("type").addEventListener("change", filter);
  byId("direction").addEventListener("change", filter);
  byId("to-cause").addEventListener("click", toCause);
  byId("next").addEventListener("click", () => toFinding(1));
  byId("previous").addEventListener("click", () => toFinding(-1));
  byId("tree").addEventListener("scroll", () => drawRows());
  byId("tree").addEventListener("keydown", treeKey);
  byId("map").addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const place = event.offsetY / byId("map").clientHeight;
    select(model.ops[Math.min(model.ops.length - 1, Math.floor(place * model.ops.length))]);
  });
  const canvas = byId("flow-canvas");
  canvas.addEventListener("mousemove", (/** @type {MouseEvent} */ event) => showTip(nearest(event)));
  canvas.addEventListener("mouseleave", () => { byId("tip").hidden = true; });
  canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const found = nearest(event);
    if (found) select(found.node);
  });
  addEventListener("keydown", pageKey);
}

/** @param {string} theme */
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

// ---- where we are ---------------------------------------------------------------------------------------------------

/** Show what a link names: #step=0&rank=1&op=NAME. Without one, the cause.
 * @param {string} hash */
async function follow(hash) {
  const wanted = new URLSearchParams(hash.slice(1));
  const home = said().cause || said().first[0] || { step: said().step };
  const step = Number(wanted.get("step") ?? home.step), rank = Number(wanted.get("rank") ?? home.rank ?? units[0].rank);
  const op = wanted.get("op"), seq = wanted.get("seq");
  const asked = units.findIndex((unit) => unit.step === step && unit.rank === rank), away = asked < 0 || units[asked].table === null;
  if (away && (wanted.has("step") || wanted.has("rank"))) { // the same op of another step or rank is no answer
    if (asked >= 0 && isInReach(units[asked])) return leaveFor(units[asked], op !== null ? { op } : seq !== null ? { seq } : {});
    await choose(units.findIndex((unit) => unit.table === 0), -1);
    return sayAway(wanted.get("step") ?? String(step), wanted.get("rank") ?? String(rank));
  }
  const index = away ? units.findIndex((unit) => unit.table === 0) : asked;
  if (index === unitNumber && op !== null && chosen >= 0 && model.names[chosen] === op) return;
  await choose(index, -1, op);
  if (op === null && seq !== null) select(model.byTarget.get(Number(seq)) ?? -1);
}

/** Say how to see a step and rank that has no table here.
 * @param {string} step @param {string} rank */
function sayAway(step, rank) {
  byId("count").textContent = shortened(`This page has no ops of step ${step} rank ${rank}: lakeprobe view ${overview.head.name} --step ${step} --rank ${rank}`);
}

/** Whether this page or one beside it has all ops of a unit.
 * @param {Unit} unit */
function isInReach(unit) {
  return unit.table !== null || unit.page !== null;
}

/** Open the page that has a unit.
 * @param {Unit} unit @param {Record<string, string>} what */
function leaveFor(unit, what) {
  location.assign(`${unit.page}#${new URLSearchParams({ step: String(unit.step), rank: String(unit.rank), ...what })}`);
}

/** Show a unit and select a node of it.
 * @param {number} index @param {number} node @param {string | null} [op] */
async function choose(index, node, op = null) {
  const unit = units[index];
  if (!unit || !isInReach(unit)) return;
  if (unit.table === null) return leaveFor(unit, op === null ? {} : { op });
  if (index !== unitNumber) {
    model = await modelOf(unit.table);
    unitNumber = index;
    byId("unit").value = String(index);
    prepare();
  }
  const found = op !== null ? model.byName.get(op) ?? -1 : node;
  if (found >= 0) select(found);
  else if (op !== null) byId("count").textContent = `There is no op ${shortened(op)} here.`;
  else select(home());
  drawFlow();
}

/** @param {number} table */
function modelOf(table) {
  const known = models.get(table);
  if (known) return known;
  const made = unpackModel(table);
  models.set(table, made);
  return made;
}

/** The node to open a unit at: the cause, else the first op that differs, else the first; -1 without ops. */
function home() {
  if (cause >= 0) return cause;
  const first = said().first.find((/** @type {Row} */ row) => isHere(row));
  const found = first ? nodeOf(first) : -1;
  if (found >= 0) return found;
  return model.ops.find((node) => model.columns.level[node] >= 3) ?? model.ops[0] ?? -1;
}

/** @param {Row} row */
function isHere(row) {
  const unit = units[unitNumber];
  return row.step === unit.step && (row.rank === unit.rank || (row.ranks || []).includes(unit.rank));
}

/** @param {Row} row @returns {number} */
function nodeOf(row) {
  const found = row.target_seq != null ? model.byTarget.get(row.target_seq) : row.seq != null ? model.byTarget.get(row.seq) : undefined;
  return found ?? (row.golden_seq != null ? model.byGolden.get(row.golden_seq) : undefined) ?? model.byName.get(row.op) ?? -1;
}

function prepare() {
  opened = new Uint8Array(model.size);
  kept = openBefore = null;
  scope = chosen = cause = -1;
  hops = new Map();
  const row = said().cause;
  if (row && isHere(row)) cause = row.rank === units[unitNumber].rank ? nodeOf(row) : model.byName.get(row.op) ?? -1;
  said().path.forEach((/** @type {Row} */ hop, /** @type {number} */ index) => {
    if (said().step === units[unitNumber].step && hop.rank === units[unitNumber].rank) hops.set(nodeOf(hop), index + 1);
  });
  byId("search").value = "";
  hiddenLevels.clear();
  fillFilters();
  for (let node = 0; node < model.size; node++) if (model.depths[node] === 0 && model.columns.label[node] >= 0 && /^(forward|backward)/.test(model.names[node])) opened[node] = 1;
  filter(); // draws the tree, also where no op will be selected
  byId("to-cause").hidden = !said().cause && !said().first.length;
  if (isRun()) byId("to-cause").textContent = "To the first NaN";
  drawHeads();
  drawCrumbs();
  drawRanks();
  drawSteps();
}

/** Select a node: open the way to it, show it and its panel.
 * @param {number} node */
function select(node) {
  if (!(node >= 0)) return; // undefined: where there is no row, or no op
  if (kept && !kept[node]) clearFilter();
  for (let parent = model.columns.parent[node]; parent >= 0; parent = model.columns.parent[parent]) opened[parent] = 1;
  chosen = node;
  flatten();
  reveal(node);
  drawOp();
  drawFlow();
  remember();
}

function remember() {
  const unit = units[unitNumber];
  const place = new URLSearchParams({ step: String(unit.step), rank: String(unit.rank), op: model.names[chosen] });
  try {
    history.replaceState(null, "", `#${place}`);
  } catch {
    // a page inside a notebook's cell has no address
  }
}

function toCause() {
  const row = said().cause || said().first[0];
  if (row) goTo(row);
}

/** @param {number} way */
function toFinding(way) {
  const found = model.ops.filter((node) => model.columns.level[node] >= 3 && (!kept || kept[node]));
  const next = way > 0 ? found.find((node) => node > chosen) : found.reverse().find((node) => node < chosen);
  if (next !== undefined) select(next);
}

// ---- answer ---------------------------------------------------------------------------------------------------------

function drawAnswer() {
  const { cause: row, verdict, coverage, suspects, path, first } = said();
  const left = make("div"), right = make("div");
  const found = row || first[0];
  byId("answer").classList.toggle("calm", !found);
  left.append(make("p", { class: "kicker" },
    make("span", { class: found ? "badge cause" : "badge", text: row ? (isRun() ? "First NaN or inf" : "Cause") : found ? "First difference" : "Verdict" }),
    found ? place(found) : ""));
  if (found) {
    left.append(make("p", { class: "cause-name", role: "heading", "aria-level": "2" }, breakable(link("", () => goTo(found)), shortened(found.op))));
    left.append(make("p", { class: "why", text: shortened(sentence(row ? row.why : found.source || "")) }));
    left.append(make("ol", { class: "crumbs", id: "crumbs", "aria-label": "Where it stands in the model" }));
    if (found.code) left.append(codeOf(found.code));
  } else {
    left.append(make("p", { class: "cause-name", role: "heading", "aria-level": "2", text: isRun() ? "No unexpected NaN or inf" : String(verdict) }));
  }
  (found ? right : left).append(make("p", { class: "kicker" }, found ? make("span", { class: "badge", text: isRun() ? verdict : `Verdict: ${verdict}` }) : "", ...coverage.map((/** @type {string} */ line) => make("span", { text: line.trim() }))));
  if (path.length) right.append(make("h3", { text: `From there to the loss: ${counted(path.length, "op")}` }), pathOf(path));
  const others = row ? suspects.slice(1) : suspects;
  if (others.length) {
    right.append(make("details", {}, make("summary", { text: row ? counted(others.length, "other suspect") : counted(others.length, "op that stands out", "ops that stand out") }),
      make("ul", { class: "list" }, ...others.map((/** @type {Row} */ other) => make("li", {}, link(shortened(other.op), () => goTo(other)), ` ${other.grade}: ${shortened(other.why)}`)))));
  }
  byId("answer").replaceChildren(left, right);
}

/** @param {Row} row */
function place(row) {
  const ranks = row.ranks || [row.rank];
  const several = new Set(units.map((unit) => unit.rank)).size > 1, steps = new Set(units.map((unit) => unit.step)).size > 1;
  const words = [steps ? `step ${row.step}` : "", several ? `rank${ranks.length > 1 ? "s" : ""} ${ranks.slice(0, 8).join(", ")}${ranks.length > 8 ? ", …" : ""}` : ""];
  return make("span", { text: words.filter(Boolean).join(", ") });
}

/** @param {string} text */
function sentence(text) {
  return text ? text[0].toUpperCase() + text.slice(1) + (/[.…]$/.test(text) ? "" : ".") : "";
}

/** A frame as the place and the line of code.
 * @param {string} frame */
function codeOf(frame) {
  const match = /^(File .*?, line \d+), in ([^,]+),\s*([^]*)$/.exec(frame.trim());
  if (!match) return make("p", { class: "code mono", text: shortened(frame.trim()) });
  return make("p", { class: "code mono" }, make("span", { class: "at", text: shortened(`${match[1]}, in ${match[2]}`) }), shortened(match[3].trim()));
}

/** @param {Row[]} path */
function pathOf(path) {
  return make("ol", { class: "path" }, ...path.map((hop, index) => {
    const chip = link("", () => goTo({ ...hop, step: said().step, target_seq: hop.seq }), `chip${index ? "" : " cause"}`);
    const rank = index && hop.rank !== path[index - 1].rank ? `rank ${hop.rank}: ` : "";
    chip.append(rank + brief(hop.op), make("span", { class: "quiet", text: ` ${number(hop.output_error)}` }));
    chip.title = hop.op;
    return make("li", {}, chip);
  }));
}

function drawCrumbs() {
  const crumbs = document.getElementById("crumbs");
  const row = said().cause || said().first[0];
  if (!crumbs || !row || !isHere(row)) return;
  const node = cause >= 0 ? cause : nodeOf(row);
  if (node < 0) return;
  const way = [];
  for (let at = node; at >= 0; at = model.columns.parent[at]) way.unshift(at);
  crumbs.replaceChildren(...way.map((at) => make("li", {}, link(at === node ? labelOf(at)[0] : labelOf(at).join(" "), () => select(at)))));
}

/** @param {Row} row */
function goTo(row) {
  const rank = row.rank ?? row.ranks[0];
  const index = units.findIndex((unit) => unit.step === row.step && unit.rank === rank);
  if (index < 0 || !isInReach(units[index])) return sayAway(row.step, rank);
  if (units[index].table === null) return leaveFor(units[index], row.op ? { op: row.op } : {});
  void choose(index, -1, row.op).then(() => {
    const node = nodeOf(row);
    if (node >= 0) select(node);
    byId("model").scrollIntoView({ block: "nearest" });
  });
}

// ---- legend and filters ---------------------------------------------------------------------------------------------

function levelsHere() {
  const totals = new Array(8).fill(0);
  for (const unit of units) unit.counts.forEach((count, level) => { totals[level] += count; });
  return totals.map((count, level) => [level, count]).filter(([level, count]) => count && overview.head.levels[level]);
}

function drawLegend() {
  byId("flow-title").textContent = isRun() ? "Largest magnitude, op by op" : "Error along the program, op by op";
  const ranks = new Set(units.map((unit) => unit.rank)).size;
  byId("legend").replaceChildren(...levelsHere().map(([level]) => make("li", {}, sign(level), overview.head.levels[level])),
    ranks > 1 ? make("li", { text: "— other ranks" }) : "", ranks > 1 ? make("li", { text: "ticks: ops that connect ranks" }) : "", said().path.length ? make("li", { text: "line: the path to the loss" }) : "");
}

function fillFilters() {
  const counts = new Array(8).fill(0);
  for (const node of model.ops) counts[Math.max(0, model.columns.level[node])]++;
  byId("filters").replaceChildren(make("span", { class: "quiet", text: "Ops:" }), ...overview.head.levels.map((/** @type {string} */ name, /** @type {number} */ level) => {
    if (!name || !counts[level]) return "";
    const button = make("button", { type: "button", "aria-pressed": String(!hiddenLevels.has(level)) }, sign(level), `${name} ${counts[level]}`);
    button.addEventListener("click", () => {
      if (!hiddenLevels.delete(level)) hiddenLevels.add(level);
      button.setAttribute("aria-pressed", String(!hiddenLevels.has(level)));
      filter();
    });
    return button;
  }));
  fillChoices("type", "All types", new Set(model.ops.map((node) => model.text(model.columns.api_type[node]))));
  const directions = new Set(model.ops.map((node) => model.text(model.columns.direction[node])));
  if (model.columns.is_recompute.some((value) => value)) directions.add("recompute");
  fillChoices("direction", "Both directions", directions);
}

/** @param {string} id @param {string} all @param {Set<string>} values */
function fillChoices(id, all, values) {
  const options = [...values].filter(Boolean).sort().slice(0, 200);
  byId(id).replaceChildren(make("option", { value: "", text: all }), ...options.map((value) => make("option", { value, text: shortened(value) })));
}

/** Leave the ops that fit the words, the levels, the type and the direction, and the modules around them. */
function filter() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const type = byId("type").value, direction = byId("direction").value;
  const { columns: c, text, size, names } = model;
  if (!words.length && !type && !direction && !hiddenLevels.size && scope < 0) {
    kept = null;
    if (openBefore) opened = openBefore;
    openBefore = null;
    finishFilter(model.ops.length);
    return;
  }
  openBefore ??= opened;
  const codes = words.length ? userCode() : new Map();
  kept = new Uint8Array(size);
  opened = new Uint8Array(size);
  let found = 0;
  for (let node = 0; node < size; node++) {
    if (scope >= 0 && (node < scope || node >= model.ends[scope])) continue;
    const isOp = model.ends[node] === node + 1;
    if (isOp && hiddenLevels.size && (c.level[node] < 0 || hiddenLevels.has(c.level[node]))) continue;
    if (type && text(c.api_type[node]) !== type) continue;
    if (direction && (direction === "recompute" ? !c.is_recompute[node] : text(c.direction[node]) !== direction)) continue;
    if (!isOp && !words.length && !type) continue;
    if (words.length) {
      const place = `${names[node]} ${text(c.golden_op[node])} ${codes.get(c.target_stack[node]) || ""}`.toLowerCase();
      if (!words.every((/** @type {string} */ word) => place.includes(word))) continue;
    }
    kept[node] = 1;
    if (isOp && c.level[node] >= 0) found++;
  }
  for (let node = size - 1; node >= 0; node--) {
    if (kept[node] && c.parent[node] >= 0) {
      kept[c.parent[node]] = 1;
      opened[c.parent[node]] = 1;
    }
  }
  finishFilter(found);
}

/** @param {number} found */
function finishFilter(found) {
  flatten();
  byId("count").textContent = `${found} of ${model.ops.length} ops${scope >= 0 ? ` in ${shortened(model.names[scope])}` : ""}`;
  if (kept && shown.length) byId("tree").scrollTop = 0;
  drawRows();
}

function clearFilter() {
  byId("search").value = byId("type").value = byId("direction").value = "";
  hiddenLevels.clear();
  scope = -1;
  for (const button of byId("filters").querySelectorAll("button")) button.setAttribute("aria-pressed", "true");
  filter();
}

/** The user's line of each call stack.
 * @returns {Map<number, string>} */
function userCode() {
  const found = new Map();
  model.columns.target_stack_number.forEach((stack, index) => found.set(stack, model.text(model.columns.target_stack_code[index])));
  return found;
}

// ---- tree -----------------------------------------------------------------------------------------------------------

function flatten() {
  shown = [];
  for (let node = 0; node < model.size;) {
    const isHidden = kept !== null && !kept[node];
    if (!isHidden) shown.push(node);
    node = isHidden || !opened[node] ? model.ends[node] : node + 1;
  }
  byId("rows").style.height = `${shown.length * ROW}px`;
  drawRows();
}

/** @param {number} node */
function reveal(node) {
  const tree = byId("tree"), top = shown.indexOf(node) * ROW;
  if (node === cause || top < tree.scrollTop + 2 * ROW || top > tree.scrollTop + tree.clientHeight - 3 * ROW) tree.scrollTop = Math.max(0, top - 5 * ROW);
  drawRows();
}

function drawRows() {
  if (!model) return;
  const tree = byId("tree");
  const first = isPrinting ? 0 : Math.max(0, Math.floor(tree.scrollTop / ROW) - 4);
  const last = isPrinting ? Math.min(shown.length, 1500) : Math.min(shown.length, Math.ceil((tree.scrollTop + tree.clientHeight) / ROW) + 4);
  const rows = [];
  for (let index = first; index < last; index++) rows.push(rowOf(shown[index], index));
  byId("rows").replaceChildren(...rows);
  if (chosen >= 0) tree.setAttribute("aria-activedescendant", `node-${chosen}`);
  drawMap();
}

function drawHeads() {
  const { target, golden } = overview.head;
  byId("heads").replaceChildren(make("span", { text: shortened(target) }), make("span", { class: "golden-cell", text: golden ? shortened(golden) : "" }), make("span", { text: isRun() ? "largest magnitude" : "output error" }));
}

/** The label of a node: what it is, and what kind.
 * @param {number} node @returns {string[]} */
function labelOf(node) {
  const { columns: c, text, names } = model;
  const name = names[node], kind = text(c.kind[node]);
  if (c.label[node] >= 0) return [shortened(name), name.includes(", ") ? text(c.direction[node]) : ""];
  if (kind === "module" || kind === "parameters_grad") {
    const match = /^[^.]+\.([^]*)\.([^.]*)\.(?:forward|backward|parameters_grad)(?:\.(\d+))?$/.exec(name);
    if (!match) return [shortened(name), ""];
    const parent = c.parent[node] >= 0 ? labelPath(c.parent[node]) : "";
    const path = parent && match[1].startsWith(`${parent}.`) ? match[1].slice(parent.length + 1) : match[1];
    const call = match[3] && match[3] !== "0" ? ` (call ${match[3]})` : "";
    return kind === "parameters_grad" ? ["gradients", ""] : [shortened(path), `${match[2]}${call}`];
  }
  return name.includes(".") ? [brief(name), text(c.api_type[node]) + (isUndumped(node) ? ", not dumped" : "")] : [shortened(name), ""];
}

/** Whether construct.json or stack.json names an op that dump.json lacks. A part of the step, such as optimizer, is no op.
 * @param {number} node */
function isUndumped(node) {
  return model.columns.level[node] < 0 && model.columns.label[node] < 0 && model.names[node].includes(".");
}

/** The path of a module: layers.1.mlp.
 * @param {number} node */
function labelPath(node) {
  const match = /^[^.]+\.([^]*)\.[^.]*\.(?:forward|backward)(?:\.\d+)?$/.exec(model.names[node]);
  return match ? match[1] : "";
}

/** @param {number} node @param {number} index */
function rowOf(node, index) {
  const { columns: c, text, ends, worst, names, depths } = model;
  const isModule = ends[node] > node + 1, isOpen = Boolean(opened[node]);
  const level = isModule ? worst[node] : c.level[node];
  const isMissing = c.target_op[node] < 0 && c.golden_op[node] >= 0;
  const [label, kind] = labelOf(node);
  const left = make("div", { class: "cell" });
  left.style.paddingLeft = `min(${6 + 14 * depths[node]}px, 100% - 150px)`; // so that a name has room however deep it is
  left.append(make("span", { class: "twist", text: isModule ? (isOpen ? "▾" : "▸") : "", "aria-hidden": "true" }), sign(level));
  if (isMissing) left.append(make("span", { class: "text target-gone", text: "only in golden" }));
  else left.append(make("span", { class: "text" }, label, kind ? make("span", { class: "kind", text: `  ${kind}` }) : ""));
  if (node === cause) left.append(make("span", { class: "flag", text: isRun() ? "first" : "cause" }));
  else if (hops.has(node)) left.append(make("span", { class: "flag hop", text: `path ${hops.get(node)}`, title: `${hops.get(node)}. op of the path to the loss` }));
  else if (isModule && !isOpen && cause > node && cause < ends[node]) left.append(make("span", { class: "flag", text: "cause inside" }));
  const golden = goldenOf(node, isModule);
  const row = make("div", {
    class: `row level-${Math.max(0, level)}${node === chosen ? " chosen" : ""}${node === cause ? " cause" : ""}`, role: "treeitem", id: `node-${node}`,
    "aria-level": depths[node] + 1, "aria-selected": String(node === chosen), "aria-expanded": isModule ? String(isOpen) : null,
    "aria-label": `${shortened(names[node])}: ${wordOf(level)}${isModule ? " below" : ""}${node === cause ? ", the cause" : ""}`, title: shortened(names[node]) + (c.golden_op[node] >= 0 && c.golden_op[node] !== c.target_op[node] ? `\n${shortened(text(c.golden_op[node]))}` : "") + why(node),
  }, left, golden, errorOf(node, isModule, level));
  row.style.transform = `translateY(${index * ROW}px)`;
  row.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    if (isModule && (chosen === node || /** @type {Element} */ (event.target).className === "twist")) toggle(node);
    select(node);
  });
  return row;
}

/** Why an op is grey.
 * @param {number} node */
function why(node) {
  if (!isUndumped(node)) return "";
  return "\nnot in dump.json: construct.json or stack.json names it, and it was not dumped";
}

/** @param {number} node @param {boolean} isModule */
function goldenOf(node, isModule) {
  const { columns: c, text } = model;
  const cell = make("div", { class: "cell golden-cell" });
  if (isRun()) return cell;
  const golden = text(c.golden_op[node]), target = text(c.target_op[node]);
  const shownName = golden ? brief(golden) : c.target_seq[node] >= 0 ? "—" : "";
  cell.append(make("span", { class: `text golden${golden && golden !== target ? " other" : ""}${!golden ? " gone" : ""}`, text: golden === target && isModule ? "" : shownName }));
  return cell;
}

/** @param {number} node @param {boolean} isModule @param {number} level */
function errorOf(node, isModule, level) {
  let error = model.columns.error_out[node];
  if (isModule && Number.isNaN(error)) {
    for (let below = node + 1; below < model.ends[node]; below++) {
      const other = model.columns.error_out[below];
      if (other > error || Number.isNaN(error)) error = other;
    }
  }
  const track = make("span", { class: "track" }), fill = make("div", { class: `fill level-${level}` });
  fill.style.width = `${Math.round(100 * height(error))}%`;
  track.append(fill);
  const text = Number.isNaN(error) ? "" : number(error);
  return make("div", { class: "error" }, track, make("span", { text }));
}

/** The height of an error between 0 and 1, logarithmic.
 * @param {number} error */
function height(error) {
  if (!(error > 0)) return 0;
  if (error === Infinity) return 1;
  const [least, most] = range();
  return Math.min(1, Math.max(0.02, Math.log(error / least) / Math.log(most / least)));
}

/** The least and largest error that are drawn.
 * @returns {[number, number]} */
function range() {
  return isRun() ? [1e-8, 1e8] : [LEAST, 10];
}

/** @param {number} level */
function wordOf(level) {
  return level < 0 ? "not dumped" : overview.head.levels[level];
}

/** @param {number} node */
function toggle(node) {
  opened[node] = opened[node] ? 0 : 1;
  flatten();
}

/** @param {KeyboardEvent} event */
function treeKey(event) {
  const at = Math.max(0, shown.indexOf(chosen)), node = shown[at], page = Math.floor(byId("tree").clientHeight / ROW) - 2;
  const isModule = model.ends[node] > node + 1;
  const moves = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: shown.length - 1 };
  if (event.key in moves) select(shown[Math.min(shown.length - 1, Math.max(0, moves[/** @type {keyof moves} */ (event.key)]))]);
  else if (event.key === "ArrowRight" && isModule) opened[node] ? select(shown[at + 1]) : toggle(node);
  else if (event.key === "ArrowLeft") isModule && opened[node] ? toggle(node) : select(model.columns.parent[node]);
  else if (event.key === " " && isModule) toggle(node);
  else if (event.key === "Enter") byId("op").focus();
  else return;
  event.preventDefault();
}

/** @param {KeyboardEvent} event */
function pageKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(/** @type {Element} */ (event.target).tagName)) {
    if (event.key === "Escape") { clearFilter(); byId("tree").focus(); }
    return;
  }
  const acts = /** @type {Record<string, () => void>} */ ({ "/": () => byId("search").focus(), c: toCause, n: () => toFinding(1), p: () => toFinding(-1), "?": showKeys, t: () => byId("theme").click(), Escape: clearFilter });
  if (acts[event.key] && !byId("keys").open) {
    acts[event.key]();
    event.preventDefault();
  }
}

function showKeys() {
  const keys = [["↑ ↓", "next and previous row"], ["→ ←", "open and close a module"], ["Enter", "read the op"], ["/", "search"], ["n p", "next and previous finding"], ["c", "to the cause"], ["t", "light or dark"], ["Esc", "clear search and filters"]];
  byId("keys").replaceChildren(
    make("h2", { id: "keys-title", text: "Keys and colours" }),
    make("table", {}, make("tbody", {}, ...keys.map(([key, meaning]) => make("tr", {}, make("th", { scope: "row" }, make("kbd", { text: key })), make("td", { text: meaning }))))),
    make("h3", { text: "Signs" }),
    make("ul", { class: "list" }, ...levelsHere().map(([level]) => make("li", {}, sign(level), ` ${overview.head.levels[level]}`))),
    make("p", { class: "quiet", text: isRun() ? "" : "An error of 1 is as large as the tensor. A module has the sign of the worst op in it, and the error of the worst if its own output was not recorded." }),
    make("p", {}, make("button", { type: "button", text: "Close", onclick: () => byId("keys").close() })));
  byId("keys").showModal();
}

/** The whole model beside the scroll bar, and the part of it that the rows show. */
function drawMap() {
  const [context, width, tall] = contextOf("map");
  const ops = model.ops, paint = levelColours();
  const line = Math.max(1, tall / Math.max(1, ops.length));
  for (let pass = 0; pass < 8; pass++) { // the worst last, so that it is seen
    context.fillStyle = paint[pass];
    ops.forEach((node, index) => {
      if (Math.max(0, model.columns.level[node]) === pass) context.fillRect(0, (index / ops.length) * tall, width - 8, line + 0.5);
    });
  }
  const tree = byId("tree");
  const top = shown[Math.min(shown.length - 1, Math.floor(tree.scrollTop / ROW))], bottom = shown[Math.min(shown.length - 1, Math.floor((tree.scrollTop + tree.clientHeight) / ROW))];
  const place = (/** @type {number} */ node) => (lowerBound(ops, node) / Math.max(1, ops.length)) * tall;
  context.strokeStyle = colour("ink");
  context.lineWidth = 1.5;
  if (shown.length) context.strokeRect(1, Math.min(tall - 5, place(top) + 0.5), width - 9, Math.max(4, place(bottom + 1) - place(top) - 1));
  if (cause >= 0) {
    const y = Math.min(tall - 6, Math.max(6, place(cause)));
    context.fillStyle = colour("cause");
    context.beginPath();
    context.moveTo(width - 9, y);
    context.lineTo(width, y - 6);
    context.lineTo(width, y + 6);
    context.fill();
  }
}

/** @param {number[]} sorted @param {number} value */
function lowerBound(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function levelColours() {
  return SIGNS.map((_, level) => colour(`level-${level}`));
}

/** A canvas at the resolution of the screen, cleared.
 * @param {string} id @returns {[CanvasRenderingContext2D, number, number]} */
function contextOf(id) {
  const canvas = byId(id), scale = devicePixelRatio || 1;
  const width = canvas.clientWidth, tall = canvas.clientHeight;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(tall * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return [context, width, tall];
}

// ---- flow -----------------------------------------------------------------------------------------------------------

function drawFlow() {
  if (!model) return;
  const [context, width, tall] = contextOf("flow-canvas");
  const ops = model.ops, c = model.columns, paint = levelColours(), ink = colour("ink"), quiet = colour("quiet"), line = colour("line");
  const left = 58, right = width - 10, top = 26, bottom = tall - 58;
  const [least, most] = flowRange();
  const x = (/** @type {number} */ place) => left + ((right - left) * (place + 0.5)) / Math.max(1, ops.length);
  const y = (/** @type {number} */ error) => (error === Infinity ? top - 8 : !(error > 0) ? bottom + 14 : bottom - (bottom - top) * Math.min(1, Math.max(0, Math.log(error / least) / Math.log(most / least))));
  context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  drawPhases(context, x, top, bottom, tall);
  context.textAlign = "right";
  context.textBaseline = "middle";
  const decades = Math.round(Math.log10(most / least)), stride = Math.max(1, Math.ceil(decades / 5));
  for (let power = Math.ceil(Math.log10(least)); power <= Math.log10(most) + 1e-9; power += stride) {
    context.strokeStyle = line;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(left, y(10 ** power));
    context.lineTo(right, y(10 ** power));
    context.stroke();
    context.fillStyle = quiet;
    context.fillText(power === 0 ? "1" : `1e${power}`, left - 6, y(10 ** power));
  }
  context.fillStyle = quiet;
  context.fillText(isRun() ? "0" : "equal", left - 6, bottom + 14);
  drawNoise(context, y, left, right, quiet);
  drawRankLines(context, y, left, right, quiet);
  points = [];
  const radius = ops.length > 4000 ? 1.5 : ops.length > 1200 ? 2 : 2.8;
  ops.forEach((node, place) => {
    const error = c.error_out[node], level = Math.max(0, c.level[node]);
    const at = { node, x: x(place), y: Number.isNaN(error) ? (level >= 3 ? y(1) : bottom + 14) : y(error) };
    points.push(at);
  });
  for (let pass = 0; pass < 8; pass++) {
    context.fillStyle = paint[pass];
    for (const point of points) {
      if (Math.max(0, c.level[point.node]) !== pass) continue;
      if (pass < 2) context.fillRect(point.x - radius / 2, point.y - 3, radius, 6);
      else if (pass === 4 || pass === 7) {
        context.save();
        context.translate(point.x, point.y);
        context.rotate(Math.PI / 4);
        context.fillRect(-radius - 1, -radius - 1, 2 * radius + 2, 2 * radius + 2);
        context.restore();
      } else {
        context.beginPath();
        context.arc(point.x, point.y, radius, 0, 7);
        context.fill();
      }
    }
  }
  drawCollectives(context, bottom);
  drawHops(context, ink);
  drawMarks(context, top, bottom, left, right);
  const where = cause >= 0 ? `The cause ${brief(model.names[cause])} is op ${ops.indexOf(cause) + 1} of ${ops.length}.` : "";
  byId("flow-canvas").setAttribute("aria-label", `${byId("flow-title").textContent}: ${ops.length} ops. ${shortened(where)}`);
}

/** @returns {[number, number]} */
function flowRange() {
  let least = Infinity, most = 0;
  for (const node of model.ops) {
    const error = model.columns.error_out[node];
    if (error > 0 && error < Infinity) {
      least = Math.min(least, error);
      most = Math.max(most, error);
    }
  }
  if (!most) return [1e-6, 1];
  const high = 10 ** Math.ceil(Math.log10(most) + 0.05);
  return [Math.max(10 ** Math.floor(Math.log10(least)), high / 1e12), high];
}

/** The top of the tree as bands, with names where there is room. */
function drawPhases(/** @type {CanvasRenderingContext2D} */ context, /** @type {(place: number) => number} */ x, /** @type {number} */ top, /** @type {number} */ bottom, /** @type {number} */ tall) {
  const ops = model.ops;
  let number = 0;
  const band = (/** @type {number} */ node, /** @type {number} */ level) => {
    const from = lowerBound(ops, node), to = lowerBound(ops, model.ends[node]);
    if (from === to) return;
    const left = x(from - 0.5), right = x(to - 0.5);
    if (level === 0) {
      context.fillStyle = number++ % 2 ? colour("card") : colour("soft");
      context.fillRect(left, top - 18, right - left, bottom - top + 38);
      write([labelOf(node)[0]], left, right, tall - 6, true);
    } else if (right - left > 14) {
      const label = labelOf(node)[0];
      write([label, label.replace(/^[^]*\./, "")], left, right, tall - 24, false);
      context.fillStyle = colour("line");
      context.fillRect(left + 1, tall - 36, right - left - 2, 2);
    }
  };
  const write = (/** @type {string[]} */ labels, /** @type {number} */ left, /** @type {number} */ right, /** @type {number} */ at, /** @type {boolean} */ strong) => {
    context.fillStyle = strong ? colour("ink") : colour("quiet");
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    const fitting = labels.find((label) => context.measureText(label).width <= right - left - 2);
    if (fitting) context.fillText(fitting, (left + right) / 2, at);
  };
  for (let node = 0; node < model.size; node = model.ends[node]) {
    band(node, 0);
    if (model.columns.label[node] >= 0) for (let child = node + 1; child < model.ends[node]; child = model.ends[child]) if (model.ends[child] > child + 1) band(child, 1);
  }
}

/** The height below which 95 of 100 differences by rounding lie. */
function drawNoise(/** @type {CanvasRenderingContext2D} */ context, /** @type {(error: number) => number} */ y, /** @type {number} */ left, /** @type {number} */ right, /** @type {string} */ quiet) {
  if (isRun()) return;
  const noise = model.ops.filter((node) => model.columns.level[node] === 2).map((node) => model.columns.error_out[node]).filter((error) => error > 0).sort((a, b) => a - b);
  if (noise.length < 5) return;
  const floor = noise[Math.floor(noise.length * 0.95)];
  context.strokeStyle = colour("level-2");
  context.setLineDash([6, 4]);
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(left, y(floor));
  context.lineTo(right, y(floor));
  context.stroke();
  context.setLineDash([]);
  context.fillStyle = quiet;
  context.textAlign = "right";
  context.textBaseline = "bottom";
  context.fillText("rounding", right, y(floor) - 2);
}

/** A thin line for each other rank of this step. */
function drawRankLines(/** @type {CanvasRenderingContext2D} */ context, /** @type {(error: number) => number} */ y, /** @type {number} */ left, /** @type {number} */ right, /** @type {string} */ quiet) {
  const here = units[unitNumber], { profile_unit: unit, profile_bin: bin, profile_error: error } = overview.columns;
  context.strokeStyle = quiet;
  context.globalAlpha = 0.45;
  context.lineWidth = 1;
  let last = -1;
  context.beginPath();
  for (let index = 0; index < unit.length; index++) {
    const other = units[unit[index]];
    if (other.step !== here.step || other === here) continue;
    const x = left + ((right - left) * (bin[index] + 0.5)) / overview.head.bins, at = y(error[index]);
    if (unit[index] === last) context.lineTo(x, at);
    else context.moveTo(x, at);
    last = unit[index];
  }
  context.stroke();
  context.globalAlpha = 1;
}

/** A tick below each op that connects ranks. */
function drawCollectives(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ bottom) {
  context.fillStyle = colour("accent");
  context.globalAlpha = points.length > 4000 ? 0.15 : 1;
  for (const point of points) {
    if (/^Distributed/.test(model.names[point.node])) context.fillRect(point.x - 0.75, bottom + 19, 1.5, 5);
  }
  context.globalAlpha = 1;
}

/** The path from the cause to the loss. */
function drawHops(/** @type {CanvasRenderingContext2D} */ context, /** @type {string} */ ink) {
  const way = points.filter((point) => hops.has(point.node)).sort((a, b) => (hops.get(a.node) || 0) - (hops.get(b.node) || 0));
  context.strokeStyle = ink;
  context.lineWidth = 1;
  context.beginPath();
  way.forEach((point, index) => (index ? context.lineTo(point.x, point.y) : context.moveTo(point.x, point.y)));
  context.stroke();
}

/** The cause, and the op that is selected. */
function drawMarks(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ top, /** @type {number} */ bottom, /** @type {number} */ left, /** @type {number} */ right) {
  const at = (/** @type {number} */ node) => points.find((point) => point.node === node);
  const mark = at(cause), now = at(chosen);
  if (now && now !== mark) {
    context.strokeStyle = colour("ink");
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(now.x, now.y, 6, 0, 7);
    context.stroke();
  }
  if (!mark) return;
  context.strokeStyle = context.fillStyle = colour("cause");
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(mark.x, top - 4);
  context.lineTo(mark.x, bottom + 18);
  context.stroke();
  context.beginPath();
  context.arc(mark.x, mark.y, 5, 0, 7);
  context.fill();
  context.font = `bold 12px ${getComputedStyle(document.body).fontFamily}`;
  const words = `${isRun() ? "first" : "cause"}: ${brief(model.names[cause]).slice(0, 40)}`;
  const wide = context.measureText(words).width + 12, x = Math.max(left, Math.min(mark.x - 1, right - wide));
  context.fillRect(x, top - 22, wide, 18);
  context.fillStyle = colour("on-cause");
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(words, x + 6, top - 12.5);
}

/** @param {MouseEvent} event */
function nearest(event) {
  let found = null, least = 900;
  for (const point of points) {
    const distance = 4 * (point.x - event.offsetX) ** 2 + (point.y - event.offsetY) ** 2 / 4;
    if (distance < least) {
      least = distance;
      found = point;
    }
  }
  return found;
}

/** @param {{node: number, x: number, y: number} | null} point */
function showTip(point) {
  const tip = byId("tip");
  tip.hidden = !point;
  if (!point) return;
  const c = model.columns;
  const module = c.parent[point.node] >= 0 ? `\nin ${shortened(model.names[c.parent[point.node]])}` : "";
  tip.textContent = `${shortened(model.names[point.node])}${module}\n${wordOf(c.level[point.node])}${Number.isNaN(c.error_out[point.node]) ? "" : `, ${isRun() ? "magnitude" : "error"} ${number(c.error_out[point.node])}`}`;
  tip.style.whiteSpace = "pre-line";
  const wide = byId("flow-canvas").clientWidth;
  tip.style.left = `${Math.max(0, Math.min(point.x + 12, wide - 300))}px`;
  tip.style.top = `${point.y + 14}px`;
}

// ---- op -------------------------------------------------------------------------------------------------------------

function drawOp() {
  const { columns: c, text, names, ends } = model;
  const node = chosen, golden = text(c.golden_op[node]), isModule = ends[node] > node + 1;
  const level = isModule ? model.worst[node] : c.level[node];
  const parts = [];
  parts.push(breakable(make("h2"), names[node]));
  parts.push(make("p", { class: "kicker" }, sign(level), make("span", { text: `${wordOf(level)}${isModule ? " (the worst below)" : ""}` }),
    node === cause ? make("span", { class: "badge cause", text: isRun() ? "first" : "the cause" }) : "",
    c.micro_step[node] >= 0 ? make("span", { text: `micro step ${c.micro_step[node]}` }) : "",
    c.is_recompute[node] ? make("span", { text: "recompute" }) : ""));
  const way = [];
  for (let at = c.parent[node]; at >= 0; at = c.parent[at]) way.unshift(at);
  parts.push(make("ol", { class: "crumbs" }, ...way.map((at) => make("li", {}, link(labelOf(at).join(" "), () => select(at))))));
  if (golden && golden !== names[node]) parts.push(make("p", { class: "mono", text: `golden: ${golden}` }));
  if (c.target_seq[node] >= 0 && !golden && !isRun()) parts.push(make("p", { text: "Golden has no such op." }));
  if (c.target_op[node] < 0 && golden) parts.push(make("p", { text: "The target has no such op." }));
  if (isUndumped(node)) parts.push(make("p", { text: "Not in dump.json: construct.json or stack.json names it, and it was not dumped." }));
  if (node === cause) parts.push(make("p", { class: "why", text: sentence(said().cause.why) }));
  if (isModule) parts.push(make("p", {}, link("Show only this module", () => { scope = node; filter(); })), belowOf(node));
  parts.push(...leavesOf(node), ...linksOf(node), elsewhereOf(node), ...stacksOf(node));
  byId("op").replaceChildren(...parts.filter(Boolean));
  byId("op").scrollTop = 0;
}

/** How grave the ops below a module are.
 * @param {number} node */
function belowOf(node) {
  const counts = new Array(8).fill(0);
  for (let below = node + 1; below < model.ends[node]; below++) if (model.ends[below] === below + 1 && model.columns.level[below] >= 0) counts[model.columns.level[below]]++;
  return make("ul", { class: "legend" }, ...counts.map((count, level) => (count ? make("li", {}, sign(level), `${count} ${wordOf(level)}`) : "")));
}

/** @param {number} node @returns {number[]} */
function leavesAt(node) {
  const found = [], first = model.firstLeaf[node];
  for (let leaf = first; leaf >= 0 && leaf < model.columns.leaf_node.length && model.columns.leaf_node[leaf] === node; leaf++) found.push(leaf);
  return found;
}

/** @param {number} node */
function leavesOf(node) {
  const parts = [];
  let role = "";
  for (const leaf of leavesAt(node)) {
    const its = model.text(model.columns.leaf_role[leaf]);
    if (its !== role) parts.push(make("h3", { text: { input: "Inputs", parameters: "Parameters", output: "Outputs", parameters_grad: "Gradients" }[its] || its }));
    role = its;
    parts.push(leafOf(leaf));
  }
  return parts;
}

/** @param {number} leaf */
function leafOf(leaf) {
  const { columns: c, text } = model;
  const level = c.leaf_level[leaf], error = c.leaf_error[leaf], goldenSlot = text(c.leaf_golden_slot[leaf]);
  const slot = text(c.leaf_slot[leaf]) || "value";
  const head = make("div", { class: "leaf-head" }, sign(level), make("strong", { class: "mono", text: slot + (goldenSlot && goldenSlot !== slot ? ` ↔ ${goldenSlot}` : "") }), make("span", { class: "quiet", text: isRun() ? "" : wordOf(level) }));
  if (error > 0 && !isRun() && c.leaf_target_recorded[leaf]) head.append(make("span", { text: `error ${number(error)}` }));
  const isQuiet = level === 1 && !isRun(); // what is equal is folded, so that what differs is seen
  const box = make(isQuiet ? "details" : "div", { class: `leaf level-${level}` }, isQuiet ? make("summary", {}, head) : head);
  const maker = c.leaf_maker[leaf];
  if (maker >= 0) box.append(make("div", { class: "quiet" }, "made by ", link(brief(model.names[maker]), () => select(maker))));
  const sides = isRun() ? ["target"] : ["target", "golden"];
  const seen = sides.map((side) => ({
    name: side, what: [text(c[`leaf_${side}_type`][leaf]), text(c[`leaf_${side}_shape`][leaf])].filter(Boolean).join(" "),
    value: text(c[`leaf_${side}_value`][leaf]), numbers: STATISTICS.map((name, place) => (c[`leaf_${side}_recorded`][leaf] & (1 << place) ? c[`leaf_${side}_${name}`][leaf] : null)),
  }));
  const present = STATISTICS.map((_, index) => seen.some((side) => side.numbers[index] !== null));
  const isSame = seen.length === 2 && seen.every((side) => side.what === seen[0].what && side.value === seen[0].value && String(side.numbers) === String(seen[0].numbers));
  const listed = isSame ? [{ ...seen[0], name: "both" }] : seen;
  const values = seen.some((side) => side.value);
  const header = make("tr", {}, make("th", { text: "" }), ...STATISTICS.filter((_, index) => present[index]).map((name) => make("th", { class: "number", scope: "col", text: name })), values ? make("th", { scope: "col", text: "value" }) : "");
  const body = listed.map((side) => make("tr", {}, make("th", { scope: "row", text: isRun() ? "" : side.name }),
    ...STATISTICS.map((_, index) => (present[index] ? make("td", { class: `number${seen.length === 2 && String(seen[0].numbers[index]) !== String(seen[1].numbers[index]) ? " off" : ""}`, text: statistic(side.numbers[index], seen[side === seen[0] ? seen.length - 1 : 0].numbers[index]) }) : "")),
    values ? make("td", { class: isSame || seen.length < 2 ? "" : "off", text: side.value }) : ""));
  const what = isSame || seen.length < 2 || seen[0].what === seen[1].what ? seen[0].what : `${seen[0].what || "nothing"} against ${seen[1].what || "nothing"}`;
  box.append(make("div", { class: "quiet mono", text: what }));
  if (values || present.some(Boolean)) box.append(make("div", { class: "wide" }, make("table", {}, make("thead", {}, header), make("tbody", {}, ...body))));
  box.append(histogramOf(leaf));
  const messages = text(c.leaf_messages[leaf]);
  if (messages) box.append(make("div", { text: messages }));
  return box;
}

/** How many elements differ by how much: half decades of |target − golden| / RMS of golden.
 * @param {number} leaf */
function histogramOf(leaf) {
  const bins = model.head.histogram_bins, { histogram_leaf: leaves, histogram_count: all } = model.columns;
  const at = leaves.indexOf(/** @type {never} */ (leaf));
  if (at < 0) return "";
  const counts = Array.from(all.slice(at * bins, (at + 1) * bins)), total = counts.reduce((sum, count) => sum + count, 0);
  const size = model.text(model.columns.leaf_target_shape[leaf]).split("×").reduce((product, extent) => product * (Number(extent) || 1), 1);
  const equal = counts[0], odd = counts[bins - 1], between = counts.slice(1, bins - 1), highest = Math.max(...between, 1);
  const wide = 280, tall = 76, base = 58, step = wide / between.length;
  const svg = drawn("svg", { viewBox: `0 0 ${wide} ${tall}`, class: "histogram", role: "img", "aria-label": "Histogram of the difference" });
  between.forEach((count, bin) => {
    const words = `${bin ? `1e${-9 + (bin - 1) / 2}` : "0"} to ${bin < between.length - 1 ? `1e${-9 + bin / 2}` : "more"}: ${count} of ${total} elements`;
    const bar = drawn("rect", { x: bin * step + 0.5, width: step - 1, y: base - (count ? Math.max(2, (50 * count) / highest) : 0), height: count ? Math.max(2, (50 * count) / highest) : 0, fill: "var(--accent)" });
    const title = drawn("title", {});
    title.textContent = words;
    bar.append(title);
    svg.append(bar);
  });
  svg.append(drawn("path", { d: `M0 ${base}H${wide}`, stroke: "var(--line)" }));
  for (const power of [-9, -6, -3, 0, 3]) {
    const label = drawn("text", { x: Math.min(wide - 16, step * (1 + 2 * (power + 9))), y: tall - 4, "text-anchor": "middle", "font-size": 11, fill: "var(--quiet)" });
    label.textContent = power ? `1e${power}` : "1";
    svg.append(label);
  }
  const share = (/** @type {number} */ count) => `${Number(((100 * count) / total).toPrecision(3))} %`;
  const said = [`${share(equal)} of the elements are equal`, odd ? `${share(odd)} NaN or inf on one side` : "", total < size ? `of every ${Math.round(size / total)}th` : ""].filter(Boolean).join(", ");
  return make("figure", {}, svg, make("figcaption", { class: "quiet", text: `|difference| / RMS of golden: ${said}` }));
}

/** @param {string} tag @param {Row} fields @returns {SVGElement} */
function drawn(tag, fields) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(fields)) element.setAttribute(name, String(value));
  return /** @type {SVGElement} */ (element);
}

/** The ops that take an output of this one.
 * @param {number} node */
function linksOf(node) {
  if (!model.takers) {
    model.takers = new Map();
    model.columns.leaf_maker.forEach((maker, leaf) => {
      if (maker < 0) return;
      const known = model.takers?.get(maker) || [];
      const taker = model.columns.leaf_node[leaf];
      if (!known.includes(taker)) known.push(taker);
      model.takers?.set(maker, known);
    });
  }
  const takers = model.takers.get(node) || [];
  if (!takers.length) return [];
  return [make("h3", { text: "Goes to" }), make("ul", { class: "list" }, ...takers.slice(0, 20).map((taker) => make("li", {}, sign(model.columns.level[taker]), " ", link(shortened(model.names[taker]), () => select(taker)))), takers.length > 20 ? make("li", { class: "quiet", text: `… and ${takers.length - 20} more` }) : "")];
}

/** The same op on other ranks and in other steps, as soon as their tables are read.
 * @param {number} node */
function elsewhereOf(node) {
  const others = units.map((unit, index) => ({ unit, index })).filter(({ unit }) => unit.table !== null);
  if (others.length < 2 || model.columns.label[node] >= 0) return "";
  const box = make("div"), name = model.names[node];
  void Promise.all(others.map(async ({ unit, index }) => {
    const other = await modelOf(/** @type {number} */ (unit.table));
    return { unit, index, other, at: other.byName.get(name) ?? -1 };
  })).then((found) => {
    const known = found.filter(({ at }) => at >= 0);
    if (known.length < 2 || chosen !== node) return;
    box.append(make("h3", { text: "The same op on other ranks and in other steps" }));
    const steps = known.filter(({ unit }) => unit.rank === units[unitNumber].rank).map(({ unit, other, at }) => [unit.step, other.columns.error_out[at]]);
    if (steps.length > 2) box.append(sparkline([{ points: steps, style: "accent" }], 220, 40, !isRun()));
    box.append(make("ul", { class: "list" }, ...known.slice(0, 64).map(({ unit, index, other, at }) => make("li", {}, sign(other.columns.level[at]), " ", link(`step ${unit.step}, rank ${unit.rank}`, () => void choose(index, -1, name)), ` ${Number.isNaN(other.columns.error_out[at]) ? "" : number(other.columns.error_out[at])}${index === unitNumber ? " (here)" : ""}`))));
  });
  return box;
}

/** @param {number} node */
function stacksOf(node) {
  const parts = [];
  const target = framesOf("target", model.columns.target_stack[node]), golden = framesOf("golden", model.columns.golden_stack[node]);
  if (target) parts.push(make("h3", { text: golden && golden.own !== target.own ? "Called by the target" : "Called by" }), ...target.parts);
  if (golden && (!target || golden.own !== target.own)) parts.push(make("h3", { text: "Called by golden" }), ...golden.parts);
  return parts;
}

/** @param {string} side @param {number} stack */
function framesOf(side, stack) {
  const { columns: c, text } = model;
  const index = stack < 0 ? -1 : c[`${side}_stack_number`].indexOf(/** @type {never} */ (stack));
  if (index < 0) return null;
  const ends = c[`${side}_stack_end`], own = text(c[`${side}_stack_code`][index]);
  const frames = Array.from(c[`${side}_stack_frame`].slice(index ? ends[index - 1] : 0, ends[index]), (number) => text(number));
  const box = make("div", { class: "stack", tabindex: "0", role: "group", "aria-label": "Call stack" }, ...frames.map((frame) => make("div", { class: frame === own ? "own" : "", text: frame.replace(/\s+/g, " ").trim() })));
  return { own, parts: [own ? codeOf(own) : "", make("details", {}, make("summary", { text: `The whole call stack: ${counted(frames.length, "frame")}` }), box)] };
}

// ---- ranks and steps ------------------------------------------------------------------------------------------------

function drawRanks() {
  const section = byId("ranks"), here = units[unitNumber];
  const ranks = units.filter((unit) => unit.step === here.step);
  const overflow = said().overflow || { counts: [], births: [] };
  const { spread, meetings } = said();
  if (ranks.length < 2 && !spread.length && !meetings.length && !overflow.births.length) return;
  section.hidden = false;
  const parts = [make("h2", { id: "ranks-title", text: ranks.length > 1 ? "Ranks" : "NaN and inf" })];
  if (ranks.length > 1) parts.push(make("p", { class: "quiet", text: `Step ${here.step}: the worst op of each block of the model, on each rank` }), heat(ranks, (unit) => `rank ${unit.rank}`));
  if (spread.length) {
    parts.push(make("details", { open: spread.length > 16 ? null : "" }, make("summary", { text: `How the difference reached ${counted(spread.length, "rank")}` }), tableOf(["to rank", "from", "by", "op", "error"],
      spread.slice(0, 64).map((/** @type {Row} */ way) => [way.rank, way.from_rank, way.meeting, link(shortened(way.op), () => goTo({ ...way, step: way.step ?? said().step })), number(way.brought_error)]))));
  }
  if (meetings.length) {
    parts.push(make("details", {}, make("summary", { text: `Meetings of ranks that carry a difference: ${meetings.length === 200 ? "the first 200" : meetings.length}` }), tableOf(["meeting", "effect", "put in by", "received by", "error put in", "error received"],
      meetings.map((/** @type {Row} */ row) => [row.meeting, row.effect, (row.put_in || []).join(", "), (row.taken || []).join(", "), number(row.error_put_in), number(row.error_taken)]))));
  }
  if (overflow.births.length) {
    parts.push(make("h3", { text: "Where NaN and inf arise" }), tableOf(["rank", "op", "level", "in", "out"],
      overflow.births.slice(0, 20).map((/** @type {Row} */ row) => [row.rank, link(shortened(row.op), () => goTo({ ...row, target_seq: row.seq })), row.level, row.came_in || "", row.came_out || ""])));
  }
  section.replaceChildren(...parts);
}

function drawSteps() {
  const section = byId("steps"), here = units[unitNumber], { drift, series } = said();
  const steps = units.filter((unit) => unit.rank === here.rank);
  if (steps.length < 2 && !series) return;
  section.hidden = false;
  const parts = [make("h2", { id: "steps-title", text: "Steps" })];
  if (steps.length > 1) parts.push(make("p", { class: "quiet", text: `Rank ${here.rank}: the worst op of each block of the model, in each step` }), heat(steps, (unit) => `step ${unit.step}`));
  if (drift && drift.rows.length) parts.push(...multiplesOf(drift, `Drift: ${drift.metric} over steps, what leaves golden first`));
  if (series && series.rows.length) parts.push(...multiplesOf(series, "Monitored: the series that leave golden first"));
  else if (series) parts.push(make("p", { class: "quiet", text: "Monitored: no series leaves golden in any step that both have" }));
  section.replaceChildren(...parts);
}

/** What was followed over steps: a small picture per row.
 * @param {Row} drift @param {string} title */
function multiplesOf(drift, title) {
  const severalRanks = drift.rows.some((/** @type {Row} */ row) => row.rank !== drift.rows[0].rank) || units.some((unit) => unit.rank !== drift.rows[0].rank);
  const pictures = drift.rows.map((/** @type {Row} */ row) => {
    const series = drift.series.filter((/** @type {Row} */ point) => point.name === row.name && (point.rank === row.rank || point.rank == null));
    const lines = [{ points: series.map((/** @type {Row} */ point) => [point.golden_step ?? point.step, point.golden]), style: "golden" }, { points: series.map((/** @type {Row} */ point) => [point.step ?? point.golden_step, point.value]), style: "target", mark: row.leaves_at }];
    const leaves = row.leaves_at == null ? "stays with golden" : `leaves at step ${row.leaves_at}`;
    return make("figure", {}, sparkline(lines, 260, 70, false), make("figcaption", { text: `${shortened(row.name)}${severalRanks ? ` rank ${row.rank}` : ""}: ${leaves}, worst ${number(row.worst)}` }));
  });
  return [make("h3", { text: title }), make("p", { class: "quiet", text: "Thick: golden. Thin: target. The mark is where the target leaves golden." }), make("div", { class: "multiples" }, ...pictures)];
}

/** @param {string[]} heads @param {any[][]} rows */
function tableOf(heads, rows) {
  return make("div", { class: "wide", tabindex: "0", role: "group", "aria-label": heads.join(", ") }, make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col", text: head })))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((value) => make("td", {}, value instanceof Node ? value : shortened(String(value ?? "")))))))));
}

/** A heat map: a row per unit, a column per block of the model in program order.
 * @param {Unit[]} rows @param {(unit: Unit) => string} name */
function heat(rows, name) {
  const { block_unit: unit, block_name: block, block_direction: way, block_level: level, block_error: error, block_seq: seq } = overview.columns;
  /** @type {Map<string, {label: string, seq: number}>} */ const heads = new Map();
  /** @type {Map<string, number>} */ const cells = new Map();
  const wanted = new Set(rows.map((row) => units.indexOf(row)));
  for (let index = 0; index < unit.length; index++) {
    if (!wanted.has(unit[index])) continue;
    const key = `${block[index]} ${way[index]}`, known = heads.get(key);
    const arrow = overview.text(way[index]) === "backward" ? " ←" : "";
    if (!known || known.seq > seq[index]) heads.set(key, { label: overview.text(block[index]) + arrow, seq: seq[index] });
    cells.set(`${unit[index]} ${key}`, index);
  }
  const columns = [...heads.entries()].sort((a, b) => a[1].seq - b[1].seq).slice(0, 400);
  const body = rows.map((row) => {
    const at = units.indexOf(row);
    return make("tr", {}, make("th", { scope: "row" }, !isInReach(row) ? name(row) : link(name(row), () => void choose(at, -1))), ...columns.map(([key, head]) => {
      const index = cells.get(`${at} ${key}`);
      if (index === undefined) return make("td");
      const words = `${name(row)}, ${head.label}: ${wordOf(level[index])}${error[index] > 0 ? `, ${isRun() ? "magnitude" : "error"} ${number(error[index])}` : ""}`;
      const cell = make("button", { type: "button", class: `sign level-${level[index]}`, title: shortened(words), "aria-label": shortened(words), text: level[index] > 1 ? SIGNS[level[index]] : "", tabindex: "-1" });
      cell.addEventListener("click", () => openBlock(at, seq[index], row));
      return make("td", { class: at === unitNumber ? "now" : "" }, cell);
    }));
  });
  const top = make("tr", {}, make("td"), ...columns.map(([, head]) => make("th", { scope: "col", title: shortened(head.label) }, make("span", { text: head.label.slice(0, 60) }))));
  return make("div", { class: "heat", tabindex: "0", role: "group", "aria-label": "Heat map" }, make("table", {}, make("thead", {}, top), make("tbody", {}, ...body)));
}

/** Open a unit at a block: the op of the target with this place.
 * @param {number} index @param {number} seq @param {Unit} unit */
function openBlock(index, seq, unit) {
  if (unit.table === null) return unit.page === null ? goTo(unit) : leaveFor(unit, { seq: String(seq) });
  void choose(index, -1).then(() => {
    select(model.byTarget.get(seq) ?? -1);
    byId("model").scrollIntoView({ block: "nearest" });
  });
}

/** @param {{points: any[][], style: string, mark?: number | null}[]} lines @param {number} wide @param {number} tall @param {boolean} isLog */
function sparkline(lines, wide, tall, isLog) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", `0 0 ${wide} ${tall}`);
  svg.setAttribute("class", "spark");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "Values over steps");
  const scaled = (/** @type {any} */ value) => (value === null || value === undefined ? NaN : isLog ? Math.log10(Math.max(LEAST, Number(value))) : Number(value));
  const all = lines.flatMap((line) => line.points.map(([step, value]) => [step, scaled(value)])).filter(([, value]) => Number.isFinite(value));
  if (!all.length) return svg;
  const xs = all.map(([step]) => step), ys = all.map(([, value]) => value);
  const [west, east, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const x = (/** @type {number} */ step) => 8 + ((wide - 16) * (step - west)) / Math.max(1e-12, east - west);
  const y = (/** @type {number} */ value) => tall - 8 - ((tall - 16) * (value - low)) / Math.max(1e-300, high - low || 1);
  for (const line of lines) {
    const drawn = line.points.map(([step, value]) => [step, scaled(value)]).filter(([, value]) => Number.isFinite(value)).sort((a, b) => a[0] - b[0]);
    const shape = document.createElementNS(space, "polyline");
    shape.setAttribute("points", drawn.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" "));
    shape.setAttribute("fill", "none");
    shape.setAttribute("stroke", line.style === "golden" ? "var(--level-3)" : "var(--accent)");
    shape.setAttribute("stroke-width", line.style === "golden" ? "5" : "1.5");
    svg.append(shape);
    const mark = line.mark == null ? undefined : drawn.find(([step]) => step === line.mark);
    if (mark) {
      const ring = document.createElementNS(space, "circle");
      ring.setAttribute("cx", String(x(mark[0])));
      ring.setAttribute("cy", String(y(mark[1])));
      ring.setAttribute("r", "5");
      ring.setAttribute("fill", "none");
      ring.setAttribute("stroke", "var(--cause)");
      ring.setAttribute("stroke-width", "2");
      svg.append(ring);
    }
  }
  return svg;
}

void start();
