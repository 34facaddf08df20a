// Draws the job's record (cli/report/job_json.h lists its keys), or jobs beside each other
// (cli/report/comparison.h). Text from nodes only ever becomes text nodes and attribute values, never
// markup. Passes are counted from 1 here.
'use strict';

let job = JSON.parse(document.getElementById('job').textContent);
const main = document.querySelector('main');
const tip = document.getElementById('tip');

// ---- Elements ----

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
const paragraph = text => html('p', {class: 'sub'}, text);

// ---- Numbers as text ----

const counted = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;
const digits = (value, count) => String(Number(value.toPrecision(count)));
const grouped = new Intl.NumberFormat('en-US');
const whole = value => Number.isFinite(value) && value >= 0 ? grouped.format(Math.round(value)) : '-';
const power = (value, count) => value.toExponential(count).replace('+', '');
const figure = value => value === null ? '-' : Math.abs(value) < 1e7 ? digits(value, 4) : power(value, 3);

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e15) return power(value, 0);
  if (size >= 1e9) return digits(value / 1e9, 3) + 'G';
  if (size >= 1e6) return digits(value / 1e6, 3) + 'M';
  if (size >= 1e4) return digits(value / 1e3, 3) + 'k';
  return size >= 1000 ? value.toFixed(0) : digits(value, 4);
}

function bytes(value) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let at = 0;
  for (; value >= 999.5 && at + 1 < units.length; ++at) value /= 1000;
  return `${at > 0 && value < 9.95 ? value.toFixed(1) : value.toFixed(0)} ${units[at]}`;
}

function span(milliseconds) {
  const seconds = Math.max(0, milliseconds) / 1000;
  const two = value => String(Math.floor(value)).padStart(2, '0');
  if (seconds < 10) return `${(Math.floor(seconds * 10) / 10).toFixed(1)}s`;
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m${two(seconds % 60)}s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h${two(seconds / 60 % 60)}m`;
  return `${Math.floor(seconds / 86400)}d${two(seconds / 3600 % 24)}h`;
}

function utc(milliseconds) {
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? '-' : date.toISOString().slice(0, 19).replace('T', ' ');
}

// ---- Pictures ----

const FONT = 12;  // of their text, in pixels: a picture is drawn anew for each width and never scaled
const LETTER = 6.6;  // the usual width of one

// An element that redraw() fills with draw(its width).
const picture = draw => Object.assign(html('div', {class: 'picture'}), {draw, drawnWidth: 0});

// Draws each picture whose width is not the drawn one.
function redraw() {
  const widths = [...document.querySelectorAll('.picture')].map(holder => [holder, Math.floor(holder.clientWidth)]);
  for (const [holder, width] of widths) {
    if (width === holder.drawnWidth || width === 0) continue;
    holder.drawnWidth = width;
    holder.replaceChildren(holder.draw(width));
  }
}

const frame = (kind, title, width, height, marks) => svg(
  'svg', {class: kind, viewBox: `0 0 ${width} ${height}`, width, height, 'font-size': FONT, role: 'img', 'aria-label': title},
  ...marks);
const at = value => value.toFixed(1);
const scale = (range, from, to) => value => from + (value - range.low) / (range.high - range.low) * (to - from);

// ---- Line charts ----

const HEIGHT = 250, LEFT = 52, RIGHT = 14, TOP = 10, BOTTOM = 40;
const TICKS = 5;
const TICK_WIDTH = 70;  // at least, of the horizontal axis
const SERIES_MAX = 8;  // as many colours are distinguished
const MANY_DOTS = 50;  // dots of a longer series are small, so that they stay apart
const TIP_REACH = 30;  // pixels from the pointer to a point
const LOGARITHMIC_FROM = 1000;  // the highest value by the lowest

// 1, 2 or 5 times a power of ten, so that about `ticks` of them span the range.
function tickStep(low, high, ticks) {
  const rough = (high - low) / ticks;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find(step => step * power >= rough) ?? 10);
}

// The range of the values and its ticks; a single value gets a range around it.
function rangeOf(values, count = TICKS) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const size = Math.max(Math.abs(low), Math.abs(high), 1e-12);
  if (high - low < 1e-9 * size) [low, high] = [low - size / 10, high + size / 10];
  const step = tickStep(low, high, count);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-6); i * step <= high + step / 1e6; ++i) ticks.push(i * step);
  return {low, high, step, ticks};
}

// The same range out to whole ticks.
function roundedRange(values) {
  const {low, high, step} = rangeOf(values);
  return rangeOf([Math.floor(low / step) * step, Math.ceil(high / step) * step]);
}

// The vertical axis; logarithmic for values as far apart as those of a run that diverges.
function verticalAxis(values, fromZero, from, to) {
  const low = Math.min(...values), high = Math.max(...values);
  if (fromZero || low <= 0 || high / low < LOGARITHMIC_FROM) {
    const range = roundedRange(fromZero ? [0, ...values] : values);
    return {ticks: range.ticks, place: scale(range, from, to), text: short};
  }
  const powers = rangeOf([Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))]);
  const ticks = powers.ticks.filter(Number.isInteger).map(power => 10 ** power);
  const place = scale(powers, from, to);
  return {ticks, place: value => place(Math.log10(value)), text: value => power(value, 0)};
}

function axes(x, y, atX, width, xLabel) {
  const marks = [];
  for (const tick of y.ticks) {
    const height = y.place(tick);
    marks.push(svg('line', {class: 'grid', x1: LEFT, x2: width - RIGHT, y1: at(height), y2: at(height)}),
               svg('text', {class: 'tick', x: LEFT - 8, y: at(height + 4), 'text-anchor': 'end'}, y.text(tick)));
  }
  for (const tick of x.ticks) {
    const place = Math.min(atX(tick), width - RIGHT - short(tick).length * LETTER / 2 + RIGHT);
    const position = {x: at(place), y: HEIGHT - BOTTOM + 17, 'text-anchor': 'middle'};
    marks.push(svg('text', {class: 'tick', ...position}, short(tick)));
  }
  marks.push(svg('text', {class: 'label', x: width - RIGHT, y: HEIGHT - 5, 'text-anchor': 'end'}, xLabel));
  return marks;
}

function drawn({points, dots, colour}, place, atX, atY) {
  const index = colour ?? place;
  const placed = points.map(([x, y]) => [at(atX(x)), at(atY(y))]);
  const line = svg('polyline', {class: `s${index}`, points: placed.join(' '), 'data-key': `line-${place}`});
  if (!dots && points.length > 1) return [line];
  const r = points.length > MANY_DOTS ? 2 : 3.5;
  return [line, ...placed.map(([cx, cy]) => svg('circle', {class: `s${index}`, cx, cy, r}))];
}

function showTip(text, event) {
  tip.style.display = text === '' ? 'none' : 'block';
  if (text === '') return;
  tip.textContent = text;
  tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${event.clientY - 30}px`;
}

// Shows the point nearest to the pointer, with its series, in the units of the axes.
function showValues(drawing, shown, atX, atY) {
  drawing.onmousemove = event => {
    const box = drawing.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    let nearest = null, least = TIP_REACH ** 2;
    for (const {name, points} of shown) {
      for (const point of points) {
        const distance = (atX(point[0]) - x) ** 2 + (atY(point[1]) - y) ** 2;
        if (distance < least) [nearest, least] = [{name, point}, distance];
      }
    }
    showTip(nearest ? `${nearest.name}: ${digits(nearest.point[1], 4)} at ${digits(nearest.point[0], 4)}` : '', event);
  };
  drawing.onmouseleave = event => showTip('', event);
}

// series: [{name, points: [[x, y], ...], dots, colour}]; without a colour, each has that of its place.
// Nothing where no series has a point.
function lineChart(title, {xLabel, yLabel, fromZero = false}, series) {
  const shown = series.filter(one => one.points.length > 0).slice(0, SERIES_MAX);
  if (shown.length === 0) return [];
  const points = shown.flatMap(one => one.points);
  const draw = width => {
    const x = rangeOf(points.map(point => point[0]), Math.max(2, Math.min(TICKS, Math.floor(width / TICK_WIDTH))));
    const atX = scale(x, LEFT, width - RIGHT);
    const y = verticalAxis(points.map(point => point[1]), fromZero, HEIGHT - BOTTOM, TOP);
    const marks = [...axes(x, y, atX, width, xLabel), ...shown.flatMap((one, i) => drawn(one, i, atX, y.place))];
    const drawing = frame('chart', title, width, HEIGHT, marks);
    showValues(drawing, shown, atX, y.place);
    return drawing;
  };
  const keys = shown.map(({name, colour}, i) => html('span', {class: 'key'}, html('i', {class: `s${colour ?? i}`}), name));
  return [html('figure', {}, html('figcaption', {}, `${title} `, html('small', {}, yLabel)), picture(draw),
               html('div', {class: 'legend'}, ...keys))];
}

// ---- Bar charts ----

const BARS_MAX = 48;
const BAR_HEIGHT = 18, BAR_PITCH = 24, BAR_RIGHT = 70;
const BAR_NAMES = 0.4;  // of the width, at most

const endOf = (text, room) => text.length > room ? '..' + text.slice(2 - room) : text;

// bars: [{name, value, marked}], from 0. Nothing where there is none.
function barChart(title, toText, bars) {
  if (bars.length === 0) return [];
  const shown = bars.slice(0, BARS_MAX);
  const highest = Math.max(...shown.map(bar => bar.value));
  const longest = Math.max(...shown.map(bar => bar.name.length));
  const draw = width => {
    const left = Math.min(width * BAR_NAMES, longest * LETTER + 14);
    const room = Math.floor((left - 12) / LETTER);
    const marks = shown.flatMap(({name, value, marked}, i) => {
      const top = i * BAR_PITCH;
      const length = highest > 0 ? Math.max(0, value) / highest * (width - left - BAR_RIGHT) : 0;
      const label = endOf(name, room);
      const box = {x: at(left), y: top, width: at(Math.max(length, 1)), height: BAR_HEIGHT, rx: 2};
      return [
        svg('text', {class: 'name', x: at(left - 8), y: top + 13.5, 'text-anchor': 'end'}, label),
        svg('rect', {class: marked ? 'bar marked' : 'bar', ...box}),
        svg('text', {class: 'value', x: at(left + length + 6), y: top + 13.5}, toText(value)),
      ];
    });
    return frame('bars', title, width, shown.length * BAR_PITCH, marks);
  };
  const more = bars.length > shown.length ? [html('small', {}, `and ${bars.length - shown.length} more`)] : [];
  return [html('figure', {}, html('figcaption', {}, title), picture(draw), ...more)];
}

// ---- Tables ----

const textOf = cell => Array.isArray(cell) ? cell[0] : cell;
const isNothing = cell => ['', '-', '0', '0 B'].includes(textOf(cell));

// columns: [[title, class]]; a cell is text or an element, or [either, class] where its class is not
// the column's. A column that says nothing in any row is left out, unless its third element is true.
// On a narrow page a row is a card. A row may have a `key`, by which the live page finds it again
// (data-key); one that `isKept` has no cells, and the live page leaves it as it is (data-kept).
function table(title, id, columns, rows, total = rows.length, kept = 'the last') {
  if (rows.length === 0) return [];
  const shown = columns.map((column, i) => i).filter(i => columns[i][2] || !rows.every(row => isNothing(row[i])));
  const note = total > rows.length ? [html('small', {}, ` ${kept} ${rows.length} of ${total}`)] : [];
  const head = html('tr', {class: 'head'}, ...shown.map(i => html('th', {class: columns[i][1]}, columns[i][0])));
  const keysOf = ({key, isKept}) => (
    {...(key === undefined ? {} : {'data-key': key}), ...(isKept ? {'data-kept': ''} : {})});
  const body = rows.map(row => html('tr', keysOf(row), ...shown.filter(() => !row.isKept).map(i => {
    const kind = Array.isArray(row[i]) ? row[i][1] : columns[i][1];
    const attributes = {class: kind, 'data-name': columns[i][0], ...(textOf(row[i]) === '-' ? {'data-none': ''} : {})};
    return html('td', attributes, html('span', {}, textOf(row[i])));
  })));
  return [html('h2', {}, title, ...note), html('table', {id}, html('tbody', {}, head, ...body))];
}

const STATES = {failed: 'bad', fault: 'bad', slow: 'warn', waits: 'wait', works: 'ok', ended: 'quiet'};
const stateText = (kind, text) => html('span', {class: `state ${STATES[kind]}`}, text);
const blank = '\u00a0';  // an empty cell that keeps its place

// ---- Sections ----

const charts = (...figures) => figures.length > 0 ? [html('div', {class: 'charts'}, ...figures)] : [];
const isTrainer = process => process.role.startsWith('trainer-');
const nameOf = process => `${process.node}/${process.role}`;
const sum = values => values.reduce((total, value) => total + value, 0);
let known, runs, begin, end;

// The record that the sections draw from now on.
function use(record) {
  job = record;
  known = job.processes.filter(process => process.started_ms > 0);  // others are damaged records
  runs = known.some(process => process.ended_ms === 0);
  begin = known.length > 0 ? Math.min(...known.map(process => process.begun_ms)) : 0;
  end = Math.max(0, ...known.map(process => process.ended_ms));
}

// The evaluator that people compare by: its best value, and its last where that is another one.
function headline() {
  const one = job.evaluators.find(evaluator => evaluator.best !== null);
  if (!one) return [];
  const data = one.held_out.length > 0 ? 'held-out' : 'training';
  const pass = ({pass}) => `after pass ${pass + 1}`;
  const last = one.last.pass === one.best.pass ? '' : `; ${figure(one.last.value)} ${pass(one.last)}`;
  return [[figure(one.best.value), `best ${data} ${one.name}, ${pass(one.best)}${last}`, 'first']];
}

// Of a job that runs, by the time its passes have taken.
function progress() {
  if (!runs || job.progress === null || !(job.progress.passes > 0)) return [];
  const {pass, passes, pass_done: done} = job.progress;
  const share = Math.min(1, (pass + done) / passes);
  const latest = Math.max(begin, ...job.events.map(event => event.unix_ms));
  const left = share > 0.01 ? `, about ${span((latest - begin) * (1 / share - 1))} left` : '';
  return [[`${Math.floor(share * 100)} %`, `pass ${pass + 1} of ${passes}${left}`]];
}

function head() {
  const trainers = job.processes.filter(isTrainer);
  const pservers = job.processes.length - trainers.length;
  const nodes = new Set(known.map(process => process.node)).size;
  const examples = sum(trainers.map(process => process.examples));
  const rate = sum(trainers.map(process => process.rate));
  const tiles = [
    ...headline(), ...progress(),
    runs ? ['running', 'state'] : [span(end - begin), 'duration'],
    [counted(trainers.length, 'trainer'), `${counted(pservers, 'pserver')}, ${counted(nodes, 'node')}`],
  ];
  if (examples > 0) tiles.push([whole(examples), 'examples trained on']);
  if (rate > 0) tiles.push([short(rate), 'examples/s of all trainers']);
  const failed = known.some(process => process.failed) ? [' ', stateText('failed', 'failed')] : [];
  const tile = ([value, name, kind = '']) =>
    html('div', {class: `tile ${kind}`}, html('b', {}, value), html('span', {}, name));
  return [html('h1', {}, job.job), html('div', {class: 'sub'}, `${utc(begin)} UTC`, ...failed),
          html('div', {class: 'tiles'}, ...tiles.map(tile))];
}

function curves() {
  const of = key => job.curves.map(curve => ({name: curve.role, points: curve[key]}));
  const heldOut = one => ({name: 'held-out', points: one ? one.held_out : [], dots: true});
  const cost = {xLabel: 'batches', yLabel: 'since the log point before'};
  const rate = {xLabel: 'seconds since the start', yLabel: 'examples/s of a trainer', fromZero: true};
  const aim = one => one.one_is_best ? '1 is best' : one.higher_is_better ? 'higher is better' : 'lower is better';
  const evaluators = job.evaluators.filter(one => one.name !== 'cost').flatMap(one => lineChart(
    one.name, {xLabel: 'batches', yLabel: one.held_out.length === 0 ? '' : aim(one)},
    [{name: 'training', points: one.training}, heldOut(one)]));
  const ofCost = heldOut(job.evaluators.find(one => one.name === 'cost'));
  return charts(...evaluators, ...lineChart('Cost', cost, [...of('cost'), ofCost]),
                ...lineChart('Throughput', rate, of('rate')));
}

// The kinds of a test's curves: for each its title, its axes and its diagonal, if it has one.
const KINDS = {
  roc: {title: 'ROC', x: 'false positive rate', y: 'true positive rate', diagonal: 'by chance', end: () => 1},
  precision_recall: {title: 'Precision and recall', x: 'recall', y: 'precision'},
  calibration: {title: 'Calibration', x: 'mean prediction', y: 'share of label 1', diagonal: 'perfect', dots: true,
                end: points => Math.max(...points.flat())},
};

// A chart for each kind of curve, with a line for each evaluator of that kind.
function testCurves() {
  const figures = Object.entries(KINDS).flatMap(([kind, {title, x, y, diagonal, dots, end}]) => {
    const shown = job.test_curves.filter(one => one.kind === kind && one.points.length > 0);
    if (shown.length === 0) return [];
    const series = shown.map(({name, points}) => ({name, points, dots})).slice(0, SERIES_MAX - 1);
    const last = end ? end(shown.flatMap(one => one.points)) : 0;
    if (diagonal) series.push({name: diagonal, points: [[0, 0], [last, last]]});
    return lineChart(title, {xLabel: x, yLabel: `${y}, last test, after pass ${shown[0].pass + 1}`, fromZero: true}, series);
  });
  return charts(...figures);
}

// A row for each pass, with both kinds of data beside each other, and its best value in bold.
function passes(draw = table) {
  const rows = new Map();
  for (const {pass, data, examples, cost, evaluators} of job.passes) {
    if (!rows.has(pass)) rows.set(pass, {pass, examples: 0, values: new Map()});
    const row = rows.get(pass);
    if (data === 'training') row.examples = examples;
    for (const {name, value} of [...evaluators, {name: 'cost', value: cost}]) row.values.set(`${name} ${data}`, value);
  }
  const columns = job.evaluators.flatMap(one => ['training', 'held-out'].map(data => ({one, data, key: `${one.name} ${data}`})));
  const cell = ({pass, values}, {one, data, key}) => {
    const judged = one.held_out.length > 0 ? 'held-out' : 'training';
    const isBest = data === judged && one.best !== null && one.best.pass === pass && rows.size > 1;
    return [figure(values.get(key) ?? null), isBest ? 'n best' : 'n'];
  };
  const shown = draw(
    'Passes', 'passes', [['pass', 'n'], ['examples', 'n'], ...columns.map(({key}) => [key, 'n'])],
    [...rows.values()].map(row => [String(row.pass + 1), whole(row.examples), ...columns.map(column => cell(row, column))]),
    job.passes_total, 'the best and the last,');
  const first = job.events.find(event => event.text.startsWith('snapshot pass-'));
  return first ? [...shown, paragraph('Snapshots count from 0: pass 1 is saved as pass-00000.')] : shown;
}

const events = () => table(
  'Events', 'events', [['UTC', ''], ['from', ''], ['event', 'long']],
  job.events.map(event => [utc(event.unix_ms), event.role, [event.text, event.is_bad ? 'long bad' : 'long']]),
  job.events_total, 'the faults and the last others,');

function nodes() {
  const trainers = job.processes.filter(isTrainer);
  const busy = trainers.length > 0 && trainers.every(process => process.busy_rate > 0);
  const bars = (processes, key) => processes.filter(process => process[key] > 0)
    .map(process => ({name: nameOf(process), value: process[key], marked: key.endsWith('rate') && process.slow}));
  const drawings = charts(
    ...barChart(busy ? 'Examples/s while not waiting for others' : 'Examples/s', short,
                bars(trainers, busy ? 'busy_rate' : 'rate')),
    ...barChart('Memory (peak, of those that ended)', bytes, bars(job.processes, 'memory_bytes')),
    ...barChart('Processor time', span, bars(job.processes, 'cpu_ms')));
  const slow = job.slow.map(text => html('p', {class: 'bad'}, text));
  return drawings.length + slow.length > 0 ? [html('h2', {}, 'Work of the processes'), ...slow, ...drawings] : [];
}

// Bucket 0 counts lag 0; bucket i counts lags of i bits: 1, 2 to 3, 4 to 7, ...
function lagName(bucket) {
  const low = bucket === 0 ? 0 : 2 ** (bucket - 1), high = bucket === 0 ? 0 : 2 ** bucket - 1;
  return low === high ? `lag ${low}` : `lag ${low} to ${high}`;
}

function pservers() {
  const shards = table(
    'Parameter servers', 'shards',
    [['node', ''], ['role', ''], ['port', 'n'], ['kind', ''], ['rows', 'n'], ['memory', 'n'], ['pushes', 'n'], ['batches', 'n']],
    job.ports.map(one => [one.node, one.role, String(one.port), one.sparse ? 'sparse' : 'dense',
                          whole(one.rows), bytes(one.bytes), whole(one.pushes), whole(one.batches)]));
  if (!job.lags.slice(1).some(pushes => pushes > 0)) return shards;  // as in every sync job
  const bars = job.lags.map((value, bucket) => ({name: lagName(bucket), value})).filter(bar => bar.value > 0);
  return [...shards, html('h2', {}, 'Age of the gradients'),
          paragraph('A trainer computes a gradient from values that it read earlier. Its lag is the number of batches of ' +
                    'other trainers that the servers applied in between: 0 is what a sync job has, and large lags slow ' +
                    'learning down.'),
          ...charts(...barChart('Pushes by lag', whole, bars))];
}

// The price of the machines for the time of the job, where a provider has made them and knows it.
function cost() {
  const priced = job.machines.filter(one => one.price_per_hour > 0);
  const currencies = [...new Set(priced.map(one => one.currency))];
  const begun = Math.min(...job.processes.map(one => one.begun_ms || one.started_ms));
  const ended = Math.max(...job.processes.map(one => one.ended_ms));
  if (currencies.length !== 1 || !(ended > begun)) return [];
  const hourly = priced.reduce((sum, one) => sum + one.price_per_hour, 0);
  return [paragraph(`The machines cost ${(hourly * (ended - begun) / 3.6e6).toFixed(2)} ${currencies[0]} for the time of ` +
                    `the job, at ${hourly.toFixed(2)} an hour.`)];
}

// How the job was started, and on what. Nodes with the same machine share a row.
function surroundings() {
  const isClear = job.processes.some(process => process.arguments.split(' ').includes('--transport=clear'));
  const typed = job.commands.map(({unix_ms: when, text}) => `# ${utc(when)} UTC\n${text}`);
  const versions = [...new Set(job.commands.map(({version}) => version))];
  const groups = new Map();
  for (const {node, ...machine} of job.machines) {
    const key = JSON.stringify(machine);
    if (!groups.has(key)) groups.set(key, {machine, nodes: []});
    groups.get(key).nodes.push(node);
  }
  const names = nodes => nodes.length > 6 ? `${nodes[0]} to ${nodes.at(-1)} (${nodes.length})` : nodes.join(', ');
  const machines = table(
    'Machines', 'machines',
    [['nodes', ''], ['processor', 'long'], ['cores', 'n'], ['memory', 'n'], ['GPUs', ''], ['system', 'long'], ['agent', '']],
    [...groups.values()].map(({machine: one, nodes}) => [
      names(nodes), one.processor, whole(one.cores), bytes(one.memory_bytes), one.gpus,
      `${one.os}${one.kernel === '' ? '' : `, Linux ${one.kernel}`}`, one.agent_version]));
  return [
    ...(typed.length > 0 ? [html('h2', {}, 'Started with'), html('pre', {id: 'commands'}, typed.join('\n'))] : []),
    ...(job.tags.length > 0 ? [paragraph(`Tags: ${job.tags.join(', ')}`)] : []),
    ...(job.note !== '' ? [paragraph(`Note: ${job.note}`)] : []),
    ...(job.git !== '' ? [paragraph(`The workspace's git commit: ${job.git}`)] : []),
    ...(versions.length > 0 ? [paragraph(`paddlectl and its engine ${versions.join(', then ')}`)] : []), ...machines, ...cost(),
    ...(isClear ? [paragraph('Traffic between machines was not sealed: the cluster file says transport = "clear".')] : [])];
}

const PROCESSES_MAX = 1000;
const logOf = ({log}) => log === '' ? '-' : html('a', {href: log.split('/').map(encodeURIComponent).join('/')}, log);
const processes = () => table(
  'Processes', 'processes', [['node', ''], ['role', ''], ['state', ''], ['ran', 'n'], ['starts', 'n'], ['log', ''], ['arguments', 'long']],
  job.processes.slice(0, PROCESSES_MAX).map(process => [
    process.node, process.role,
    stateText(process.failed ? 'failed' : process.ended_ms > 0 ? 'ended' : 'works', process.state),
    process.ended_ms > 0 ? span(process.ended_ms - process.started_ms) : '-',
    process.starts > 1 ? String(process.starts) : '-', logOf(process), process.arguments || blank]));

const configuration = () => job.configuration === '' ? [] :
  [html('h2', {}, 'Configuration'), html('pre', {id: 'configuration'}, job.configuration)];

// ---- Jobs beside each other ----

const JOBS_BESIDE = 4;  // more are rows of the table
const LONG = 30;  // letters of a cell that stays on one line

// The jobs whose curves of a figure are drawn: the best ones, in the order of all jobs.
function drawnJobs(name) {
  const rank = ({one_is_best, higher_is_better, best}) =>
    one_is_best ? Math.abs(best.value - 1) : higher_is_better ? -best.value : best.value;
  const ranked = job.jobs.map((one, place) => ({place, of: one.evaluators.find(evaluator => evaluator.name === name)}))
    .filter(({of}) => of !== undefined).sort((a, b) => rank(a.of) - rank(b.of));
  return ranked.slice(0, SERIES_MAX).sort((a, b) => a.place - b.place);
}

// A chart for each figure, with the curve of each job in the job's own colour.
function comparedCurves() {
  return charts(...job.figures.flatMap(name => {
    const jobs = drawnJobs(name);
    const data = jobs.some(({of}) => of.held_out.length > 0) ? 'held_out' : 'training';
    const own = job.jobs.length <= SERIES_MAX;
    const series = jobs.map(({place, of}) => (
      {name: job.jobs[place].job, points: of[data], dots: data === 'held_out', ...(own ? {colour: place} : {})}));
    const some = own ? '' : `, the best ${jobs.length} of ${job.jobs.length} jobs`;
    return lineChart(name, {xLabel: 'batches', yLabel: (data === 'held_out' ? 'held-out data' : 'training data') + some}, series);
  }));
}

// The table: rows of [name, a cell for each job].
function comparedRows() {
  const row = (name, cell) => [name, ...job.jobs.map(cell)];
  const setting = key => row(key, ({settings}) => Object.hasOwn(settings, key) ? settings[key] : '-');
  const value = (name, part) => row(`${name} ${part}`, one => {
    const of = one.evaluators.find(evaluator => evaluator.name === name);
    if (of === undefined) return '-';
    const data = of.held_out.length > 0 || job.jobs.every(other => other.evaluators.every(
      evaluator => evaluator.name !== name || evaluator.held_out.length === 0)) ? '' : ' (training)';
    const pass = part === 'best' ? `, pass ${of[part].pass + 1}` : '';
    return [figure(of[part].value) + pass + data, job.best[name][part].includes(one.job) ? 'best' : ''];
  });
  return [
    ...job.different.map(setting), row('state', one => [one.state, one.state === 'failed' ? 'bad' : '']),
    ...job.figures.flatMap(name => [value(name, 'best'), value(name, 'last')]),
    row('examples/s', one => one.examples_per_second > 0 ? whole(one.examples_per_second) : '-'),
    row('duration', one => one.duration_ms === null ? '-' : span(one.duration_ms)),
    row('tags', one => one.tags.join(', ')), row('note', one => one.note)];
}

function comparison() {
  const rows = comparedRows().filter(([, ...cells]) => !cells.every(isNothing));
  const names = job.jobs.map(one => one.job);
  const beside = names.length <= JOBS_BESIDE;
  const columns = beside ? ['', ...names] : ['job', ...rows.map(([name]) => name)];
  const cells = beside ? rows : names.map((name, i) => [name, ...rows.map(row => row[i + 1])]);
  const same = job.different.length > 0 ? [] : [paragraph('All settings are the same.')];
  const shown = cells.map(([name, ...others]) => [name, ...others.map(
    cell => Array.isArray(cell) ? cell : [cell, cell.length > LONG ? 'long' : ''])]);
  const title = 'Settings that differ, and figures';
  return [html('h1', {}, `${counted(names.length, 'job')} compared`), ...comparedCurves(),
          html('div', {class: 'wide', tabindex: '0', role: 'region', 'aria-label': title},
               ...table(title, 'comparison', columns.map(name => [name, '']), shown)), ...same];
}

const report = () => [...head(), ...curves(), ...testCurves(), ...passes(), ...events(), ...nodes(), ...pservers(),
                      ...surroundings(), ...processes(), ...configuration()];

function show(elements) {
  main.replaceChildren(...elements);
  redraw();
}
if (job.processes) {
  use(job);
  show(report());
} else if (job.jobs) {
  show(comparison());
}
new ResizeObserver(redraw).observe(main);
document.documentElement.dataset.script = 'ran';
