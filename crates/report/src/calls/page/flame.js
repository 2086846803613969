/* The flame graph: frames below what called them, as wide as they weigh. */

var ROW = 19;
/* Frames narrower than this many pixels, rows and frames beyond these numbers are not drawn, and the
   line above the picture says so. */
var NARROWEST = 1.5;
var MOST_ROWS = 400;
var MOST_FRAMES = 8000;

var flame = {
  box: document.getElementById("flame"),
  zoomed: null,
  active: null,
  elements: new Map(),
  nodes: new WeakMap()
};

/* Libraries that have a colour of their own: the seven that weigh most by themselves in the first
   view, so that all views have the same colours. */
var colours = (function () {
  var own = new Array(data.libraries.length).fill(0);
  var first = data.views[0];
  first.table.f.forEach(function (fn, at) { own[data.functions.library[fn]] += first.table.o[at]; });
  var order = own.map(function (weight, library) { return library; }).filter(function (library) { return data.libraries[library] !== ""; });
  order.sort(function (one, other) { return own[other] - own[one] || one - other; });
  var found = new Array(own.length).fill(0);
  order.slice(0, 7).forEach(function (library, at) { found[library] = at + 1; });
  return { of: found, order: order };
})();

function frameClass(node) {
  var colour = "c0";
  if (states.has(node.fn)) {
    colour = stateClass(functionName(node.fn));
  } else if (data.difference !== null) {
    colour = verdictClass(node.fn);
  } else if (node.fn >= 0) {
    colour = "c" + colours.of[data.functions.library[node.fn]];
  }
  if (node.fn === MERGED) { colour = "merged"; }
  return "frame " + colour + (isFound(node.fn) ? " found" : "");
}

/* What a node says of itself, in a line. */
function describe(node) {
  var own = node.up ? "begins" : "self";
  var said = percent(node.total) + " total, " + percent(node.own) + " " + own + ", " + amount(node.total) + ", " +
    counted(node.samples, seen.waits ? "wait" : "sample", seen.waits ? "waits" : "samples");
  if (data.difference !== null) { said += sayVerdict(node.fn); }
  if (node.merged > 0) { said += ", " + counted(node.merged, "call path", "call paths") + " merged"; }
  return said;
}

function label(node) {
  if (node.fn === ROOT) { return view.focus === null ? (seen.waits ? "all waits" : "all samples") : "all stacks through " + functionName(view.focus); }
  return functionName(node.fn);
}

function drawFrame(node, left, width, row, kind) {
  var frame = element("div", frameClass(node) + kind, label(node));
  frame.setAttribute("role", "treeitem");
  frame.setAttribute("aria-level", String(node.depth + 1));
  frame.setAttribute("aria-label", label(node) + " " + shortLibrary(node.fn) + ", " + describe(node));
  frame.tabIndex = -1;
  frame.style.left = left * 100 + "%";
  frame.style.width = width * 100 + "%";
  frame.style.top = row * ROW + "px";
  flame.nodes.set(frame, node);
  flame.elements.set(node, frame);
  return frame;
}

function drawFlame() {
  var pixels = Math.max(flame.box.clientWidth, 300);
  var held = document.activeElement !== null ? flame.box.contains(document.activeElement) : false;
  var drawn = document.createDocumentFragment();
  var above = [];
  var rows = 0;
  var missing = { narrow: 0, deep: 0 };
  flame.elements = new Map();
  for (var node = flame.zoomed.parent; node !== null; node = node.parent) { above.unshift(node); }
  above.slice(-MOST_ROWS).forEach(function (outer) {
    drawn.appendChild(drawFrame(outer, 0, 1, rows, " outer"));
    rows += 1;
  });
  var top = rows;
  /* Breadth first, so that a limit cuts the deepest frames. */
  var level = [{ node: flame.zoomed, left: 0, width: 1 }];
  for (var depth = 0; level.length > 0; depth += 1) {
    if (depth >= MOST_ROWS || flame.elements.size + level.length > MOST_FRAMES) {
      missing.deep = level.length;
      break;
    }
    var below = [];
    level.forEach(function (at) {
      drawn.appendChild(drawFrame(at.node, at.left, at.width, top + depth, at.width * pixels < 12 ? " thin" : ""));
      var left = at.left;
      kidsOf(at.node).forEach(function (kid) {
        var width = at.node.total > 0 ? at.width * kid.total / at.node.total : 0;
        if (width * pixels >= NARROWEST) {
          below.push({ node: kid, left: left, width: width });
        } else {
          missing.narrow += 1;
        }
        left += width;
      });
    });
    rows = top + depth + 1;
    level = below;
  }
  flame.box.replaceChildren(drawn);
  flame.box.style.height = rows * ROW + "px";
  var active = flame.elements.has(flame.active) ? flame.active : flame.zoomed;
  activate(active, held);
  sayShown(missing);
}

function sayShown(missing) {
  var said = view.focus === null ? "All functions" : "Only stacks through " + functionName(view.focus);
  said += view.up ? ", from what was sampled outwards to the callers" : ", from callers inwards";
  if (flame.zoomed !== view.root) { said += "; zoomed to " + label(flame.zoomed) + " (" + percent(flame.zoomed.total) + ")"; }
  said += ".";
  said = sayView() + said;
  if (missing.narrow > 0) { said += " Too narrow to draw: " + counted(missing.narrow, "frame", "frames") + " and those below; zoom in to see them."; }
  if (missing.deep > 0) { said += " Too many to draw: " + counted(missing.deep, "frame", "frames") + " and those below; zoom in to see them."; }
  document.getElementById("shown").textContent = said;
  document.getElementById("out").disabled = flame.zoomed === view.root;
}

/* The frame that the tab key reaches, and that the buttons are about. */
function activate(node, focus) {
  var before = flame.elements.get(flame.active);
  if (before) { before.tabIndex = -1; }
  flame.active = node;
  var frame = flame.elements.get(node);
  if (frame) {
    frame.tabIndex = 0;
    if (focus) { frame.focus(); }
  }
  about(node);
  document.getElementById("focus").disabled = node.fn < 0 || node.fn === view.focus;
  document.getElementById("to-lines").disabled = !linesOf.has(node.fn);
}

function about(node) {
  var line = document.getElementById("about");
  line.replaceChildren(element("b", "", label(node)), document.createTextNode(
    (node.fn >= 0 ? "  [" + shortLibrary(node.fn) + "]" : "") + "  " + describe(node)));
}

function zoom(node) {
  flame.zoomed = node;
  flame.active = node;
  drawFlame();
}

/* The drawn neighbour of a frame: among the callees of its caller, or in their rows. */
function neighbour(node, step) {
  if (node.parent === null) { return null; }
  var kids = kidsOf(node.parent);
  for (var at = kids.indexOf(node) + step; at >= 0 && at < kids.length; at += step) {
    if (flame.elements.has(kids[at])) { return kids[at]; }
  }
  return null;
}

function flameKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) { return; }
  var node = flame.active;
  var to = null;
  switch (event.key) {
    case "ArrowRight": to = neighbour(node, 1); break;
    case "ArrowLeft": to = neighbour(node, -1); break;
    case "ArrowUp": to = node.parent; break;
    case "ArrowDown": to = kidsOf(node).find(function (kid) { return flame.elements.has(kid); }) || null; break;
    case "Home": to = view.root; break;
    case "Enter": case " ": zoom(node); break;
    case "Escape": zoom(flame.zoomed.parent || view.root); break;
    case "f": case "F": if (node.fn >= 0) { show(node.fn, view.up); } break;
    case "l": case "L": if (linesOf.has(node.fn)) { openLines(node.fn); } break;
    case "i": case "I": show(view.focus, !view.up); break;
    default: return;
  }
  event.preventDefault();
  if (to !== null ? flame.elements.has(to) : false) { activate(to, true); }
}

function legend() {
  var list = document.getElementById("legend");
  var own = new Map();
  var stateWeights = new Map();
  list.replaceChildren();
  for (var id = 1; id < calls.count; id += 1) {
    var fn = calls.fn[id];
    if (fn < 0 || calls.own[id] === 0) { continue; }
    var into = states.has(fn) ? stateWeights : own;
    var key = states.has(fn) ? fn : colours.of[data.functions.library[fn]];
    into.set(key, (into.get(key) || 0) + calls.own[id]);
  }
  if (data.difference !== null) { verdictLegend(entry); return; }
  stateWeights.forEach(function (weight, fn) { entry(stateClass(functionName(fn)), functionName(fn), weight); });
  /* Where states are innermost, no library weighs anything by itself. */
  colours.order.slice(0, 7).forEach(function (library) {
    var weight = own.get(colours.of[library]);
    if (weight > 0 || stateWeights.size > 0) { entry("c" + colours.of[library], data.libraries[library], weight); }
  });
  if (own.get(0) > 0) { entry("c0", "other libraries", own.get(0)); }
  function entry(kind, name, weight) {
    var item = element("li");
    var text = element("span", "", name + (weight === undefined ? "" : " " + percent(weight)));
    item.append(element("span", "key " + kind), text);
    list.appendChild(item);
  }
}

function startFlame() {
  flame.box.addEventListener("click", function (event) {
    var node = flame.nodes.get(event.target);
    if (node) { zoom(node); flame.elements.get(node).focus(); }
  });
  flame.box.addEventListener("mouseover", function (event) {
    var node = flame.nodes.get(event.target);
    if (node) { about(node); }
  });
  flame.box.addEventListener("mouseleave", function () { about(flame.active); });
  flame.box.addEventListener("focusin", function (event) {
    var node = flame.nodes.get(event.target);
    if (node ? node !== flame.active : false) { activate(node, false); }
  });
  flame.box.addEventListener("keydown", flameKey);
  var width = flame.box.clientWidth;
  window.addEventListener("resize", function () {
    if (flame.box.clientWidth !== width) { width = flame.box.clientWidth; drawFlame(); }
  });
}
