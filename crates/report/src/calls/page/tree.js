/* The tree of calls as rows that fold. */

var MOST_TREE_ROWS = 3000;

var tree = { body: document.querySelector("#tree tbody"), rows: [], active: null };

/* Opens the heaviest path, as long as it has most of the weight. */
function openHeaviest(root) {
  root.open = true;
  var node = root;
  for (var steps = 0; steps < 30; steps += 1) {
    var first = kidsOf(node)[0];
    if (first === undefined || first.total * 2 < node.total) { break; }
    first.open = true;
    node = first;
  }
}

/* The rows that are open, with those that stand for more of them. */
function openRows() {
  var rows = [];
  var open = kidsOf(view.root).slice(0, view.root.most).reverse().map(function (kid) { return { node: kid, rest: 0 }; });
  rest(view.root, open, true);
  function rest(node, into, first) {
    var more = kidsOf(node).length - node.most;
    if (more > 0) {
      var row = { node: node, rest: more };
      if (first) { into.unshift(row); } else { into.push(row); }
    }
  }
  while (open.length > 0 && rows.length < MOST_TREE_ROWS) {
    var row = open.pop();
    rows.push(row);
    if (row.rest === 0 && row.node.open) {
      rest(row.node, open, false);
      kidsOf(row.node).slice(0, row.node.most).reverse().forEach(function (kid) { open.push({ node: kid, rest: 0 }); });
    }
  }
  if (open.length > 0) { rows.push({ node: null, rest: 0 }); }
  return rows;
}

function cell(kind, text) { return element("td", kind, text); }

function treeRow(row, at) {
  var line = element("tr");
  line.setAttribute("role", "row");
  line.tabIndex = -1;
  line.dataset.at = String(at);
  if (row.node === null) {
    line.append(cell("n", ""), cell("n", ""), cell("n", ""), cell("name", "Too many rows; fold some away."), cell("", ""));
    return line;
  }
  var node = row.node;
  /* The root has no row of its own. */
  var depth = row.rest > 0 ? node.depth + 1 : node.depth;
  line.setAttribute("aria-level", String(Math.max(depth, 1)));
  var name = cell("name");
  name.style.paddingLeft = Math.min(depth - 1, 40) * 14 + "px";
  if (row.rest > 0) {
    var weight = kidsOf(node).slice(node.most).reduce(function (sum, kid) { return sum + kid.total; }, 0);
    var more = element("button", "plain more", counted(row.rest, "more call", "more calls"));
    more.type = "button";
    more.tabIndex = -1;
    name.append(element("span", "fold"), more);
    line.append(cell("n", percent(weight)), cell("n", ""), cell("n", ""), name, cell("", ""));
    return line;
  }
  var folds = kidsOf(node).length > 0;
  var fold = element("button", "fold", folds ? (node.open ? "▾" : "▸") : "");
  fold.type = "button";
  fold.tabIndex = -1;
  fold.setAttribute("aria-hidden", "true");
  if (folds) { line.setAttribute("aria-expanded", String(node.open)); }
  if (isFound(node.fn)) { line.className = "found"; }
  var button = element(node.fn >= 0 ? "button" : "span", node.fn >= 0 ? "plain function" : "", functionName(node.fn));
  if (node.fn >= 0) { button.type = "button"; button.tabIndex = -1; button.title = "Only stacks through this function"; }
  name.append(fold, button);
  line.append(cell("n", percent(node.total)), cell("n", percent(node.own)), cell("n", grouped(node.samples)), name,
    cell("small", shortLibrary(node.fn)));
  Array.from(line.children).forEach(function (one) { one.setAttribute("role", "gridcell"); });
  return line;
}

function drawTree(focus) {
  tree.rows = openRows();
  tree.body.replaceChildren.apply(tree.body, []);
  var drawn = document.createDocumentFragment();
  tree.rows.forEach(function (row, at) { drawn.appendChild(treeRow(row, at)); });
  tree.body.appendChild(drawn);
  var at = tree.rows.findIndex(function (row) { return row.node === tree.active; });
  activateRow(Math.max(at, 0), focus);
}

function activateRow(at, focus) {
  var before = tree.body.querySelector("tr[tabindex='0']");
  if (before !== null) { before.tabIndex = -1; }
  var line = tree.body.children[at];
  if (line === undefined) { return; }
  line.tabIndex = 0;
  tree.active = tree.rows[at].node;
  if (focus) { line.focus(); }
}

function unfold(row, open) {
  if (row.node === null) { return; }
  if (row.rest > 0) { row.node.most += 200; } else { row.node.open = open; }
  tree.active = row.node;
  drawTree(true);
}

function treeKey(event) {
  var line = event.target.closest("tr");
  if (line === null || event.ctrlKey || event.altKey || event.metaKey) { return; }
  var at = Number(line.dataset.at);
  var row = tree.rows[at];
  var folds = row.node !== null ? row.rest > 0 || kidsOf(row.node).length > 0 : false;
  switch (event.key) {
    case "ArrowDown": activateRow(Math.min(at + 1, tree.rows.length - 1), true); break;
    case "ArrowUp": activateRow(Math.max(at - 1, 0), true); break;
    case "ArrowRight":
      if (folds ? row.rest > 0 || !row.node.open : false) { unfold(row, true); } else { activateRow(Math.min(at + 1, tree.rows.length - 1), true); }
      break;
    case "ArrowLeft":
      if (row.node !== null ? row.rest === 0 && row.node.open && folds : false) {
        unfold(row, false);
      } else if (row.node !== null) {
        var outer = row.rest > 0 ? row.node : row.node.parent;
        var parent = tree.rows.findIndex(function (one) { return one.node === outer && one.rest === 0; });
        if (parent >= 0) { activateRow(parent, true); }
      }
      break;
    case "Home": activateRow(0, true); break;
    case "End": activateRow(tree.rows.length - 1, true); break;
    case "Enter":
      if (row.rest > 0) { unfold(row, true); } else if (row.node !== null ? row.node.fn >= 0 : false) { show(row.node.fn, view.up); }
      break;
    default: return;
  }
  event.preventDefault();
}

function startTree() {
  tree.body.addEventListener("keydown", treeKey);
  tree.body.addEventListener("click", function (event) {
    var line = event.target.closest("tr");
    if (line === null) { return; }
    var row = tree.rows[Number(line.dataset.at)];
    if (event.target.closest("button.function") !== null) { show(row.node.fn, view.up); return; }
    if (row.node !== null) { unfold(row, !row.node.open); }
  });
}
