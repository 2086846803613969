/* Source lines and instructions of the heaviest functions. */

var linesOf = new Map();
data.lines.forEach(function (one) { linesOf.set(one.f, one); });

function openLines(fn) {
  var chosen = document.getElementById("lines-of");
  chosen.value = String(fn);
  drawLines();
  document.getElementById("lines").scrollIntoView();
  chosen.focus({ preventScroll: true });
}

function ofFunction(one, weight) {
  return weight > 0 && one.own > 0 ? (100 * weight / one.own).toFixed(2) + "\u00a0%" : "";
}

/* How hot a share of the function is, for a bar behind it. */
function heat(cell, one, weight) {
  if (weight > 0 && one.own > 0) { cell.classList.add("h" + Math.min(9, Math.ceil(9 * weight / one.own))); }
}

function lineRow(one, told, at, kind) {
  var row = element("tr", kind);
  var share = element("td", "n", ofFunction(one, told.w || 0));
  heat(share, one, told.w || 0);
  row.appendChild(share);
  if (one.counted) { row.appendChild(element("td", "n", told.n === undefined ? "" : grouped(told.n))); }
  var place = element("td", "small");
  if (told.i) {
    var fold = element("button", "fold", "▸");
    fold.type = "button";
    fold.dataset.line = String(at);
    fold.setAttribute("aria-expanded", "false");
    fold.setAttribute("aria-label", "Instructions of " + told.at);
    place.appendChild(fold);
  }
  place.append(element("span", "", told.at));
  row.append(place, element("td", "code", told.t));
  if (told.of) { row.lastChild.append(" ", element("small", "", "inlined " + told.of)); }
  return row;
}

function instructionRow(one, told) {
  var row = element("tr", "instruction");
  var share = element("td", "n", ofFunction(one, told[2]));
  heat(share, one, told[2]);
  row.appendChild(share);
  if (one.counted) { row.appendChild(element("td", "n", told[3] === null ? "" : grouped(told[3]))); }
  var text = element("td", "code", told[1]);
  if (told[4] !== "") { text.append(" ", element("small", "", told[4])); }
  row.append(element("td", "small", told[0]), text);
  return row;
}

function drawLines() {
  var one = linesOf.get(Number(document.getElementById("lines-of").value));
  var head = document.querySelector("#line-table thead tr");
  var body = document.querySelector("#line-table tbody");
  head.replaceChildren();
  (one.counted ? ["self", "executions", "line", "source"] : ["self", "line", "source"]).forEach(function (name, at) {
    var cell = element("th", at < (one.counted ? 2 : 1) ? "n" : "", name);
    cell.scope = "col";
    head.appendChild(cell);
  });
  body.replaceChildren();
  one.lines.forEach(function (told, at) { body.appendChild(lineRow(one, told, at, told.w > 0 ? "" : "cold")); });
  document.getElementById("line-notes").textContent = one.notes.join("; ");
}

function foldLine(button) {
  var one = linesOf.get(Number(document.getElementById("lines-of").value));
  var row = button.closest("tr");
  var open = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!open));
  button.textContent = open ? "▸" : "▾";
  if (open) {
    while (row.nextSibling !== null && row.nextSibling.classList.contains("instruction")) { row.nextSibling.remove(); }
    return;
  }
  var after = row;
  one.lines[Number(button.dataset.line)].i.forEach(function (told) {
    var made = instructionRow(one, told);
    after.after(made);
    after = made;
  });
}

function startLines() {
  if (data.lines.length === 0) { return; }
  document.getElementById("lines").hidden = false;
  document.getElementById("to-lines").hidden = false;
  var chosen = document.getElementById("lines-of");
  data.lines.forEach(function (one) {
    var option = element("option", "", functionName(one.f));
    option.value = String(one.f);
    chosen.appendChild(option);
  });
  chosen.addEventListener("change", drawLines);
  document.querySelector("#line-table tbody").addEventListener("click", function (event) {
    var button = event.target.closest("button.fold");
    if (button !== null) { foldLine(button); }
  });
  drawLines();
}
