/* The table of functions, which sorts and filters. */

var COLUMNS = [
  { name: "self", of: function (fn) { return sums.own[fn]; }, cell: function (fn) { return percent(sums.own[fn]); }, kind: "n" },
  { name: "total", of: function (fn) { return sums.total[fn]; }, cell: function (fn) { return percent(sums.total[fn]); }, kind: "n" },
  { name: "self amount", of: function (fn) { return sums.own[fn]; }, cell: function (fn) { return amount(sums.own[fn]); }, kind: "n" },
  { name: "samples", of: function (fn) { return sums.ownSamples[fn]; }, cell: function (fn) { return grouped(sums.ownSamples[fn]); }, kind: "n" },
  { name: "function", of: functionName, cell: null, kind: "name" },
  { name: "library", of: libraryName, cell: shortLibrary, kind: "small" }
];

var table = {
  body: document.querySelector("#functions tbody"),
  column: 0,
  descending: true,
  most: 50,
  inlined: new Set(data.functions.inlined)
};

function matching(text, fn) {
  return functionName(fn).toLowerCase().includes(text) || libraryName(fn).toLowerCase().includes(text);
}

function compareValues(one, other) {
  if (typeof one === "number") { return one - other; }
  return one < other ? -1 : one > other ? 1 : 0;
}

function drawFunctions() {
  var text = document.getElementById("filter").value.trim().toLowerCase();
  var of = COLUMNS[table.column].of;
  var sign = table.descending ? -1 : 1;
  var all = [];
  sums.listed.forEach(function (fn) {
    if (text === "" || matching(text, fn)) { all.push(fn); }
  });
  all.sort(function (one, other) { return sign * compareValues(of(one), of(other)) || one - other; });
  var drawn = document.createDocumentFragment();
  all.slice(0, table.most).forEach(function (fn) { drawn.appendChild(functionRow(fn)); });
  table.body.replaceChildren(drawn);
  document.querySelectorAll("#functions th").forEach(function (head, at) {
    if (at === table.column) { head.setAttribute("aria-sort", table.descending ? "descending" : "ascending"); } else { head.removeAttribute("aria-sort"); }
    head.querySelector("span").textContent = at === table.column ? (table.descending ? " ▼" : " ▲") : "";
  });
  var said = counted(all.length, "function", "functions");
  if (all.length > table.most) { said += ", " + grouped(table.most) + " shown"; }
  if (text === "" && seen.unlisted > 0) { said += "; " + counted(seen.unlisted, "lighter one", "lighter ones") + " not in this page"; }
  document.getElementById("listed").textContent = said;
  document.getElementById("more").hidden = all.length <= table.most;
}

function functionRow(fn) {
  var line = element("tr", isFound(fn) ? "found" : "");
  COLUMNS.forEach(function (column) {
    var one = element("td", column.kind);
    if (column.cell === null) {
      var button = element("button", "plain", functionName(fn));
      button.type = "button";
      button.dataset.fn = String(fn);
      button.title = "Only stacks through this function";
      one.appendChild(button);
      if (linesOf.has(fn)) {
        var lines = element("button", "plain lines", "lines");
        lines.type = "button";
        lines.dataset.lines = String(fn);
        lines.setAttribute("aria-label", "Source lines of " + functionName(fn));
        one.append(" ", lines);
      }
      if (table.inlined.has(fn)) { one.append(" ", element("small", "", "inlined")); }
      if (fn === view.focus) { line.setAttribute("aria-current", "true"); }
    } else {
      one.textContent = column.cell(fn);
    }
    if (column.name === "library") { one.title = libraryName(fn); }
    line.appendChild(one);
  });
  return line;
}

function startFunctions() {
  var heads = document.querySelector("#functions thead tr");
  COLUMNS.forEach(function (column, at) {
    var head = element("th", column.kind === "n" ? "n" : "");
    head.scope = "col";
    var button = element("button", "plain", column.name);
    button.type = "button";
    button.addEventListener("click", function () {
      table.descending = at === table.column ? !table.descending : column.kind === "n";
      table.column = at;
      drawFunctions();
    });
    var arrow = element("span");
    arrow.setAttribute("aria-hidden", "true");
    head.append(button, arrow);
    heads.appendChild(head);
  });
  document.getElementById("filter").addEventListener("input", function () { table.most = 50; drawFunctions(); });
  document.getElementById("more").addEventListener("click", function () { table.most += 500; drawFunctions(); });
  table.body.addEventListener("click", function (event) {
    var lines = event.target.closest("button[data-lines]");
    if (lines !== null) { openLines(Number(lines.dataset.lines)); return; }
    var button = event.target.closest("button[data-fn]");
    if (button !== null) {
      show(Number(button.dataset.fn), view.up);
      document.getElementById("calls").scrollIntoView();
      flame.elements.get(flame.active).focus({ preventScroll: true });
    }
  });
}
