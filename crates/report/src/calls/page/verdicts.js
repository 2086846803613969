/* What moved between two sides: a table that sorts and filters, and the colours of the calls. */

var VERDICTS = {
  more: "larger share, beyond noise", less: "smaller share, beyond noise",
  shifted: "moved only because others did", same: "no change beyond the margin", undecided: "not told from noise"
};
var verdictOf = new Map();

/* The class of a function: strong colours only for what moved beyond noise. */
function verdictClass(fn) {
  var at = verdictOf.get(fn);
  var verdict = at === undefined ? "" : data.difference.verdict[at];
  if (verdict === "more" || verdict === "less") { return "d-" + verdict; }
  if (verdict === "shifted") { return "d-shifted"; }
  return "d-none";
}

function points(number) { return (number > 0 ? "+" : "") + number.toFixed(2); }

function sayVerdict(fn) {
  var at = verdictOf.get(fn);
  if (at === undefined) { return ""; }
  var rows = data.difference;
  return ", " + rows.verdict[at] + ": " + (rows.total ? "total " : "self ") + rows.old[at].toFixed(2) + "\u00a0% before, " + rows.new[at].toFixed(2) + "\u00a0% after";
}

function verdictLegend(entry) {
  if (data.difference.by === "function") {
    entry("d-more", "▲ larger share beyond noise");
    entry("d-less", "▼ smaller share beyond noise");
    entry("d-shifted", "moved only because others did");
  }
  entry("d-none", "no difference shown");
}

var VERDICT_COLUMNS = [
  { name: "verdict", key: "verdict" }, { name: "old", key: "old" }, { name: "new", key: "new" }, { name: "change", key: "change" },
  { name: "95 % interval", key: "low" }, { name: "p", key: "p" }, { name: "name", key: "name" }
];
var RANKS = { more: 0, less: 1, shifted: 2, undecided: 3, same: 4 };
var SIGNS = { more: "▲ ", less: "▼ ", shifted: "◇ ", undecided: "? ", same: "= " };
var verdicts = { column: 0, descending: false, most: 50 };

function verdictOrder(one, other) {
  var rows = data.difference;
  var key = VERDICT_COLUMNS[verdicts.column].key;
  var sign = verdicts.descending ? -1 : 1;
  var order = 0;
  if (key === "verdict") { order = RANKS[rows.verdict[one]] - RANKS[rows.verdict[other]]; }
  else if (key === "name") { order = compareValues(rows.name[one], rows.name[other]); }
  else { order = (rows[key][one] || 0) - (rows[key][other] || 0); }
  return sign * order || Math.abs(rows.change[other]) - Math.abs(rows.change[one]) || one - other;
}

function verdictRow(at) {
  var rows = data.difference;
  var row = element("tr");
  var verdict = rows.verdict[at];
  var cell = element("td", "verdict " + (verdict === "more" ? "bad" : verdict === "less" ? "good" : "grey"));
  var mark = element("span", "", SIGNS[verdict]);
  mark.setAttribute("aria-hidden", "true");
  cell.append(mark, verdict);
  cell.title = VERDICTS[verdict];
  row.appendChild(cell);
  row.append(element("td", "n", rows.old[at].toFixed(2) + "\u00a0%"), element("td", "n", rows.new[at].toFixed(2) + "\u00a0%"),
    element("td", "n strong", points(rows.change[at])),
    element("td", "n", rows.low[at] === null || rows.high[at] === null ? "" : points(rows.low[at]) + " to " + points(rows.high[at])),
    element("td", "n", rows.p[at] < 0.0001 ? "<0.0001" : rows.p[at].toFixed(4)));
  var name = element("td", "name");
  if (rows.function[at] >= 0) {
    var button = element("button", "plain", rows.name[at]);
    button.type = "button";
    button.dataset.fn = String(rows.function[at]);
    button.title = "Only stacks through this function";
    name.appendChild(button);
  } else {
    name.textContent = rows.name[at];
  }
  if (rows.names[at] > 1) { name.append(" ", element("small", "", rows.names[at] + " names")); }
  row.appendChild(name);
  return row;
}

function drawVerdicts() {
  var rows = data.difference;
  var text = document.getElementById("verdict-filter").value.trim().toLowerCase();
  var all = rows.name.map(function (name, at) { return at; }).filter(function (at) {
    return text === "" || rows.name[at].toLowerCase().includes(text) || rows.verdict[at].includes(text);
  });
  all.sort(verdictOrder);
  var drawn = document.createDocumentFragment();
  all.slice(0, verdicts.most).forEach(function (at) { drawn.appendChild(verdictRow(at)); });
  document.querySelector("#verdict-table tbody").replaceChildren(drawn);
  document.querySelectorAll("#verdict-table th").forEach(function (head, at) {
    if (at === verdicts.column) { head.setAttribute("aria-sort", verdicts.descending ? "descending" : "ascending"); } else { head.removeAttribute("aria-sort"); }
    head.querySelector("span").textContent = at === verdicts.column ? (verdicts.descending ? " ▼" : " ▲") : "";
  });
  var said = counted(all.length, "row", "rows");
  if (all.length > verdicts.most) { said += ", " + grouped(verdicts.most) + " shown"; }
  if (rows.left_out > 0) { said += "; " + counted(rows.left_out, "smaller one", "smaller ones") + " not tested"; }
  document.getElementById("verdicts-listed").textContent = said;
  document.getElementById("more-verdicts").hidden = all.length <= verdicts.most;
}

function startVerdicts() {
  if (data.difference === null) { return; }
  data.difference.function.forEach(function (fn, at) { if (fn >= 0) { verdictOf.set(fn, at); } });
  var heads = document.querySelector("#verdict-table thead tr");
  VERDICT_COLUMNS.forEach(function (column, at) {
    var numeric = column.key !== "verdict" && column.key !== "name";
    var head = element("th", numeric ? "n" : "");
    head.scope = "col";
    var button = element("button", "plain", column.key === "name" ? data.difference.by : column.name);
    button.type = "button";
    button.addEventListener("click", function () {
      verdicts.descending = at === verdicts.column ? !verdicts.descending : numeric;
      verdicts.column = at;
      drawVerdicts();
    });
    var arrow = element("span");
    arrow.setAttribute("aria-hidden", "true");
    head.append(button, arrow);
    heads.appendChild(head);
  });
  document.getElementById("verdict-filter").addEventListener("input", function () { verdicts.most = 50; drawVerdicts(); });
  press("more-verdicts", function () { verdicts.most += 500; drawVerdicts(); });
  document.querySelector("#verdict-table tbody").addEventListener("click", function (event) {
    var button = event.target.closest("button[data-fn]");
    if (button === null) { return; }
    show(Number(button.dataset.fn), view.up);
    document.getElementById("calls").scrollIntoView();
    flame.elements.get(flame.active).focus({ preventScroll: true });
  });
  drawVerdicts();
}
