/* The time line: what each thread did, and which part of the time the rest of the page is about. */

var LEVELS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
/* Parts of the time that a window shows at least. */
var CLOSEST = 16;

var line = {
  section: document.getElementById("time"),
  box: document.getElementById("threads"),
  /* Parts that the window shows, and those that are chosen. */
  from: 0, to: 0, chosen: null, rows: [], cursor: 0
};

function partCount() { return data.time.threads.length > 0 ? data.time.threads[0].parts[0].length : 0; }

function seconds(part) { return part * data.time.part / 1e9; }

/* With as many places as tell two parts apart. */
function secondsText(part) {
  var places = Math.min(9, Math.max(0, Math.ceil(-Math.log10(Math.max(data.time.part / 1e9, 1e-9)))));
  return seconds(part).toFixed(places);
}

function sayRange() {
  if (range === null) { return ""; }
  if (seen.times === null) { return "all of the time, since its parts did not fit into the page"; }
  return "only from " + secondsText(line.chosen.from) + " to " + secondsText(line.chosen.to) + " s" +
    (seen.times.each > 1 ? ", rounded to wider parts" : "");
}

function level(row, state, part) { return LEVELS.indexOf(row.parts[state].charAt(part)) / 63; }

/* What a thread did in some parts, in words. */
function sayStates(row, from, to) {
  return data.time.states.map(function (name, state) {
    var sum = 0;
    for (var part = from; part < to; part += 1) { sum += level(row, state, part); }
    return name + " " + (100 * sum / Math.max(1, to - from)).toFixed(0) + "\u00a0%";
  }).join(", ");
}

function colourOf(kind) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + kind).trim();
}

function drawRow(row) {
  var canvas = row.canvas;
  var scale = window.devicePixelRatio || 1;
  var width = Math.max(1, Math.round(canvas.clientWidth * scale));
  var height = Math.max(1, Math.round(canvas.clientHeight * scale));
  canvas.width = width;
  canvas.height = height;
  var pen = canvas.getContext("2d");
  var parts = line.to - line.from;
  data.time.states.forEach(function (name, state) {
    var kind = stateClass(name);
    pen.fillStyle = colourOf(kind);
    for (var x = 0; x < width; x += 1) {
      /* All parts below a pixel, so that nothing is passed over. */
      var first = line.from + Math.floor(x * parts / width);
      var last = Math.max(first + 1, line.from + Math.floor((x + 1) * parts / width));
      var under = 0;
      var own = 0;
      for (var part = first; part < last; part += 1) {
        for (var lower = 0; lower < state; lower += 1) { under += level(row.of, lower, part); }
        own += level(row.of, state, part);
      }
      own /= last - first;
      under /= last - first;
      if (own > 0) {
        var top = Math.round(height * (1 - Math.min(1, under + own)));
        pen.fillRect(x, top, 1, Math.max(1, Math.round(height * (1 - under)) - top));
      }
    }
  });
  canvas.setAttribute("aria-label", row.of.name + ": " + sayStates(row.of, line.from, line.to));
}

function drawThreads() {
  line.rows.forEach(drawRow);
  var axis = document.getElementById("axis");
  axis.replaceChildren();
  for (var at = 0; at <= 4; at += 1) {
    axis.appendChild(element("span", "", secondsText(line.from + (line.to - line.from) * at / 4) + " s"));
  }
  markRange();
  var whole = line.from === 0 && line.to === partCount();
  document.getElementById("closer").disabled = line.chosen === null;
  document.getElementById("all-time").disabled = whole && line.chosen === null;
}

/* The chosen part as a frame over the rows. */
function markRange() {
  var mark = document.getElementById("span");
  var chosen = line.chosen;
  mark.hidden = chosen === null;
  if (chosen !== null) {
    var parts = line.to - line.from;
    var left = Math.min(1, Math.max(0, (chosen.from - line.from) / parts));
    var right = Math.min(1, Math.max(0, (chosen.to - line.from) / parts));
    mark.style.left = left * 100 + "%";
    mark.style.width = (right - left) * 100 + "%";
  }
  fill("from", chosen === null ? "" : secondsText(chosen.from));
  fill("to", chosen === null ? "" : secondsText(chosen.to));
}

/* Not while somebody types there. */
function fill(id, text) {
  var box = document.getElementById(id);
  if (box !== document.activeElement) { box.value = text; }
}

/* Chooses parts; where stacks are known by time, at the ends of their blocks, and the graphs below
   follow. */
function choose(from, to) {
  var count = partCount();
  var blocks = data.time.blocks;
  line.chosen = null;
  range = null;
  if (from !== null && blocks !== null) {
    var block = function (part) { return Math.round((part * data.time.part - blocks[0]) / blocks[1]); };
    var first = Math.max(0, Math.min(blocks[2] - 1, block(Math.min(from, to))));
    range = { from: first, to: Math.max(first + 1, Math.min(blocks[2], block(Math.max(from, to)))) };
    line.chosen = { from: partOf(range.from), to: partOf(range.to) };
  } else if (from !== null) {
    first = Math.max(0, Math.min(count - 1, Math.round(Math.min(from, to))));
    line.chosen = { from: first, to: Math.max(first + 1, Math.min(count, Math.round(Math.max(from, to)))) };
  }
  sayChosen();
  drawThreads();
  weigh();
}

/* Where a block begins, in parts. */
function partOf(block) { return (block * data.time.blocks[1] + data.time.blocks[0]) / data.time.part; }

function sayChosen() {
  var said = "";
  if (line.chosen !== null) {
    said = duration((line.chosen.to - line.chosen.from) * data.time.part) + " chosen";
    said += data.time.blocks === null ? "; the stacks below are of all the time." : "; the graphs and tables below are of it alone.";
  }
  document.getElementById("chosen").textContent = said;
}

function look(from, to) {
  var count = partCount();
  var width = Math.min(count, Math.max(CLOSEST, Math.round(to - from)));
  line.from = Math.max(0, Math.min(count - width, Math.round(from)));
  line.to = line.from + width;
  drawThreads();
}

function threadKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) { return; }
  var width = line.to - line.from;
  var step = Math.max(1, Math.round(width / 16));
  if (data.time.blocks !== null) { step = Math.max(step, data.time.blocks[1] / data.time.part); }
  var chosen = line.chosen || { from: line.from, to: line.from + step };
  switch (event.key) {
    case "ArrowRight": if (event.shiftKey) { choose(chosen.from, chosen.to + step); } else { choose(chosen.from + step, chosen.to + step); } break;
    case "ArrowLeft": if (event.shiftKey) { choose(chosen.from, Math.max(chosen.from + 1, chosen.to - step)); } else { choose(Math.max(0, chosen.from - step), Math.max(1, chosen.to - step)); } break;
    case "+": case "=": look(line.from + width / 4, line.to - width / 4); break;
    case "-": look(line.from - width / 2, line.to + width / 2); break;
    case "Enter": if (line.chosen !== null) { look(line.chosen.from, line.chosen.to); } break;
    case "Escape": look(0, partCount()); choose(null); break;
    default: return;
  }
  event.preventDefault();
}

/* The part of the time below a pointer. */
function partAt(event) {
  var box = line.rows[0].canvas.getBoundingClientRect();
  var x = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  return line.from + x * (line.to - line.from);
}

function startThreads() {
  if (data.time === null || partCount() === 0) { return; }
  line.section.hidden = false;
  document.getElementById("time-source").textContent = data.time.source === "switches" ?
    "From the context switches: how much of each part of the time a thread was in a state, from the bottom up." :
    "From the times of the samples: how much of each part of the time a thread was seen running. Record with --switch-events to see waits.";
  data.time.threads.forEach(function (thread) {
    var row = element("div", "thread");
    var canvas = element("canvas");
    canvas.setAttribute("role", "img");
    var name = element("span", "name", thread.name);
    name.title = thread.name + ": " + data.time.states.map(function (state, at) {
      return state + " " + (data.time.source === "switches" || data.views[0].clock ? duration(thread.sums[at]) : grouped(thread.sums[at]));
    }).join(", ");
    row.append(name, canvas);
    line.box.insertBefore(row, document.getElementById("axis-row"));
    line.rows.push({ of: thread, canvas: canvas });
    canvas.addEventListener("mousemove", function (event) {
      var part = Math.min(partCount() - 1, Math.floor(partAt(event)));
      document.getElementById("thread-about").textContent = thread.name + " at " + secondsText(part) + " s: " + sayStates(thread, part, part + 1);
    });
  });
  if (data.time.unlisted > 0) {
    document.getElementById("thread-about").textContent = "Not shown: " + counted(data.time.unlisted, "thread that ran less", "threads that ran less") + ".";
  }
  var keys = document.getElementById("states");
  data.time.states.forEach(function (name) {
    var item = element("li");
    item.append(element("span", "key " + stateClass(name)), element("span", "", name));
    keys.appendChild(item);
  });
  var start = null;
  line.box.addEventListener("pointerdown", function (event) {
    if (event.target.tagName !== "CANVAS" || event.button !== 0) { return; }
    start = partAt(event);
  });
  window.addEventListener("pointerup", function (event) {
    if (start === null) { return; }
    var end = partAt(event);
    /* A click alone chooses nothing. */
    if (Math.abs(end - start) * line.rows[0].canvas.clientWidth > 3 * (line.to - line.from)) { choose(start, end); }
    start = null;
  });
  line.box.addEventListener("keydown", threadKey);
  press("closer", function () { look(line.chosen.from, line.chosen.to); });
  press("all-time", function () { look(0, partCount()); choose(null); });
  ["from", "to"].forEach(function (id) {
    document.getElementById(id).addEventListener("blur", markRange);
    document.getElementById(id).addEventListener("input", function () {
      var from = parseFloat(document.getElementById("from").value);
      var to = parseFloat(document.getElementById("to").value);
      var part = data.time.part / 1e9;
      if (isNaN(from) && isNaN(to)) { choose(null); return; }
      if (isNaN(from)) { from = 0; }
      if (isNaN(to)) { to = seconds(partCount()); }
      if (to > from) { choose(Math.round(from / part), Math.round(to / part)); }
    });
  });
  window.addEventListener("resize", drawThreads);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawThreads);
  window.addEventListener("beforeprint", drawThreads);
  line.from = 0;
  line.to = partCount();
  drawThreads();
}
