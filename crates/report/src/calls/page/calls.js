"use strict";
/* The calls of the page's data, and trees of them from either end. A tree's nodes are made when they
   are first looked at, so that it costs what is shown of it. */

/* What stands in place of a function: the root, and what was merged to keep the page small. */
var ROOT = -2;
var MERGED = -1;

var data = JSON.parse(document.getElementById("data").textContent);
/* The calls of the view that is shown, see weights.js. */
var calls = null;

/* The places of a view's calls. Node 0 is the root; a caller has a lower number than its callees. */
function readCalls(given) {
  var kept = given.f.length;
  var count = 1 + kept + given.cut.length;
  var all = {
    count: count,
    fn: new Int32Array(count).fill(MERGED),
    parent: new Int32Array(count),
    own: new Float64Array(count),
    ownSamples: new Float64Array(count),
    total: new Float64Array(count),
    samples: new Float64Array(count),
    merged: new Float64Array(count),
    first: new Int32Array(count).fill(-1),
    next: new Int32Array(count).fill(-1)
  };
  var path = [0];
  all.fn[0] = ROOT;
  for (var i = 0; i < kept; i += 1) {
    all.fn[i + 1] = given.f[i];
    all.parent[i + 1] = path[given.d[i]];
    path[given.d[i] + 1] = i + 1;
  }
  given.cut.forEach(function (cut, at) {
    var id = 1 + kept + at;
    all.parent[id] = cut[0] + 1;
    all.merged[id] = cut[3];
  });
  for (var id = count - 1; id > 0; id -= 1) {
    all.next[id] = all.first[all.parent[id]];
    all.first[all.parent[id]] = id;
  }
  return all;
}

/* All weights of a view's calls. */
function weighAll(all, given) {
  for (var i = 0; i < given.f.length; i += 1) {
    all.own[i + 1] = given.w[i];
    all.ownSamples[i + 1] = given.s[i];
  }
  given.cut.forEach(function (cut, at) {
    all.own[1 + given.f.length + at] = cut[1];
    all.ownSamples[1 + given.f.length + at] = cut[2];
  });
}

/* The weights of some blocks of the time, from one up to another. */
function weighBlocks(all, times, from, to) {
  all.own.fill(0);
  all.ownSamples.fill(0);
  var at = 0;
  times.b.forEach(function (entries, block) {
    var row = 0;
    for (var n = 0; n < entries; n += 1, at += 1) {
      row += times.n[at];
      if (block >= from && block < to) {
        all.own[row + 1] += times.w[at];
        all.ownSamples[row + 1] += times.s[at];
      }
    }
  });
}

/* Totals from the weights of the calls themselves. */
function addUpTotals(all) {
  all.total.set(all.own);
  all.samples.set(all.ownSamples);
  for (var id = all.count - 1; id > 0; id -= 1) {
    all.total[all.parent[id]] += all.total[id];
    all.samples[all.parent[id]] += all.samples[id];
  }
}

function functionName(fn) {
  if (fn === ROOT) { return "all samples"; }
  if (fn === MERGED) { return "lighter calls"; }
  return data.names[data.functions.name[fn]];
}

/* States of threads, which stand as frames among the functions. */
var states = new Set(data.functions.states);

function libraryName(fn) {
  return fn < 0 ? "" : data.libraries[data.functions.library[fn]];
}

/* The last part of a path. */
function shortLibrary(fn) {
  var path = libraryName(fn);
  return path.slice(path.lastIndexOf("/") + 1);
}

/* A node of a shown tree: a function below a path, from `places` in the calls. Upwards each place
   comes with the weight that it stands for. */
function shownNode(fn, parent, up) {
  return {
    fn: fn, parent: parent, up: up, depth: parent === null ? 0 : parent.depth + 1,
    total: 0, samples: 0, own: 0, merged: 0, places: [], weights: up ? [] : null,
    counts: up ? [] : null, kids: null, open: false, most: 20
  };
}

function addDown(node, place) {
  node.places.push(place);
  node.total += calls.total[place];
  node.samples += calls.samples[place];
  node.own += calls.own[place];
  node.merged += calls.merged[place];
}

function addUp(node, place, weight, samples) {
  node.places.push(place);
  node.weights.push(weight);
  node.counts.push(samples);
  node.total += weight;
  node.samples += samples;
  node.merged += calls.merged[place];
  /* Where nothing called it, the stack begins. */
  if (calls.parent[place] === 0) { node.own += weight; }
}

/* The heaviest first, and an order for equals that does not depend on the data's. */
function heaviestFirst(one, other) {
  return other.total - one.total || one.fn - other.fn;
}

function kidsOf(node) {
  if (node.kids !== null) { return node.kids; }
  var found = new Map();
  function kid(fn) {
    if (!found.has(fn)) { found.set(fn, shownNode(fn, node, node.up)); }
    return found.get(fn);
  }
  node.places.forEach(function (place, at) {
    if (node.up) {
      var caller = calls.parent[place];
      if (caller !== 0) { addUp(kid(calls.fn[caller]), caller, node.weights[at], node.counts[at]); }
      return;
    }
    for (var callee = calls.first[place]; callee !== -1; callee = calls.next[callee]) {
      if (calls.samples[callee] > 0 || calls.total[callee] > 0) { addDown(kid(calls.fn[callee]), callee); }
    }
  });
  node.kids = Array.from(found.values()).sort(heaviestFirst);
  return node.kids;
}

/* The outermost places of a function. */
function outermost(fn) {
  var inside = new Uint8Array(calls.count);
  var found = [];
  for (var id = 1; id < calls.count; id += 1) {
    inside[id] = inside[calls.parent[id]];
    if (inside[id] === 0 && calls.fn[id] === fn) {
      inside[id] = 1;
      found.push(id);
    }
  }
  return found;
}

/* The tree of all calls or, with `fn`, of those through a function; `up` turns it to callers. */
function rooted(fn, up) {
  var root = shownNode(ROOT, null, up);
  if (fn === null && !up) {
    addDown(root, 0);
    return root;
  }
  var found = new Map();
  function add(place, weight, samples) {
    var own = calls.fn[place];
    if (!found.has(own)) { found.set(own, shownNode(own, root, up)); }
    if (up) { addUp(found.get(own), place, weight, samples); } else { addDown(found.get(own), place); }
    root.total += weight;
    root.samples += samples;
  }
  if (fn !== null) {
    outermost(fn).forEach(function (place) { add(place, calls.total[place], calls.samples[place]); });
  } else {
    for (var id = 1; id < calls.count; id += 1) {
      if (calls.ownSamples[id] > 0 || calls.own[id] > 0) { add(id, calls.own[id], calls.ownSamples[id]); }
    }
  }
  root.kids = Array.from(found.values()).sort(heaviestFirst);
  return root;
}

/* The weight of stacks with a function of which `is` is true, each once. */
function weightWith(is) {
  var inside = new Uint8Array(calls.count);
  var sum = 0;
  for (var id = 1; id < calls.count; id += 1) {
    inside[id] = inside[calls.parent[id]];
    if (inside[id] === 0 && calls.fn[id] >= 0 && is[calls.fn[id]] === 1) {
      inside[id] = 1;
      sum += calls.total[id];
    }
  }
  return sum;
}

function percent(weight) {
  return (calls.total[0] > 0 ? 100 * weight / calls.total[0] : 0).toFixed(2) + "\u00a0%";
}

function grouped(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

function amount(weight) {
  return seen.clock ? duration(weight) : grouped(weight);
}

/* Nanoseconds as people say them. */
function duration(weight) {
  if (weight >= 1e9) { return (weight / 1e9).toFixed(2) + " s"; }
  if (weight >= 1e6) { return (weight / 1e6).toFixed(1) + " ms"; }
  if (weight >= 1e3) { return (weight / 1e3).toFixed(1) + " µs"; }
  return grouped(weight) + " ns";
}

function counted(number, one, many) {
  return grouped(number) + " " + (number === 1 ? one : many);
}

function element(tag, kind, text) {
  var made = document.createElement(tag);
  if (kind) { made.className = kind; }
  if (text !== undefined) { made.textContent = text; }
  return made;
}
