// Draws the job's record (cli/report/job_json.h lists its keys). Text from nodes only ever becomes
// text nodes and attribute values, never markup.
'use strict';

const job = JSON.parse(document.getElementById('job').textContent);
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

// ---- Numbers as text ----

const counted = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;
const digits = (value, count) => String(Number(value.toPrecision(count)));
const whole = value => Number.isFinite(value) && value >= 0 ? Math.round(value).toLocaleString('en-US') : '-';
const figure5 = value => value === null ? '-' : digits(value, 5);

function short(value) {
  const size = Math.abs(value);
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

// ---- Line charts ----

const WIDTH = 720, HEIGHT = 260, LEFT = 64, RIGHT = 12, TOP = 10, BOTTOM = 40;
const TICKS = 5;
const SERIES_MAX = 8;  // as many colours are told apart
const MANY_DOTS = 50;  // dots of a longer series are small, so that they stay apart
const TIP_REACH = 30;  // from the pointer to a point, in units of the drawing

// 1, 2 or 5 times a power of ten, so that about TICKS of them span the range.
function tickStep(low, high) {
  const rough = (high - low) / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find(step => step * power >= rough) ?? 10);
}

// The range of the values and its ticks; a single value gets a range around it.
function rangeOf(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const size = Math.max(Math.abs(low), Math.abs(high), 1e-12);
  if (high - low < 1e-9 * size) [low, high] = [low - size / 10, high + size / 10];
  const step = tickStep(low, high);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-6); i * step <= high + step / 1e6; ++i) ticks.push(i * step);
  return {low, high, step, ticks};
}

// The same range out to whole ticks.
function roundedRange(values) {
  const {low, high, step} = rangeOf(values);
  return rangeOf([Math.floor(low / step) * step, Math.ceil(high / step) * step]);
}

const scale = (range, from, to) => value => from + (value - range.low) / (range.high - range.low) * (to - from);
const at = value => value.toFixed(1);

const picture = (kind, title, height, marks) =>
  svg('svg', {class: kind, viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': title}, ...marks);

function axes(x, y, atX, atY, xLabel) {
  const marks = [];
  for (const tick of y.ticks) {
    const height = atY(tick);
    marks.push(svg('line', {class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: at(height), y2: at(height)}),
               svg('text', {class: 'tick', x: LEFT - 8, y: at(height + 4), 'text-anchor': 'end'}, short(tick)));
  }
  for (const tick of x.ticks) {
    const position = {x: at(atX(tick)), y: HEIGHT - BOTTOM + 17, 'text-anchor': 'middle'};
    marks.push(svg('text', {class: 'tick', ...position}, short(tick)));
  }
  marks.push(svg('text', {class: 'label', x: WIDTH - RIGHT, y: HEIGHT - 5, 'text-anchor': 'end'}, xLabel));
  return marks;
}

function drawn({points, dots}, index, atX, atY) {
  const placed = points.map(([x, y]) => [at(atX(x)), at(atY(y))]);
  if (!dots) return [svg('polyline', {class: `s${index}`, points: placed.join(' ')})];
  const r = points.length > MANY_DOTS ? 2 : 4;
  return placed.map(([cx, cy]) => svg('circle', {class: `s${index}`, cx, cy, r}));
}

// Shows the point nearest to the pointer, with its series, in the units of the axes.
function showValues(drawing, shown, atX, atY) {
  drawing.onmousemove = event => {
    const box = drawing.getBoundingClientRect();
    const unit = box.width / WIDTH;
    const x = (event.clientX - box.left) / unit, y = (event.clientY - box.top) / unit;
    let nearest = null, least = TIP_REACH ** 2;
    for (const {name, points} of shown) {
      for (const point of points) {
        const distance = (atX(point[0]) - x) ** 2 + (atY(point[1]) - y) ** 2;
        if (distance < least) [nearest, least] = [{name, point}, distance];
      }
    }
    tip.style.display = nearest ? 'block' : 'none';
    if (!nearest) return;
    tip.textContent = `${nearest.name}: ${digits(nearest.point[1], 4)} at ${digits(nearest.point[0], 4)}`;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY - 30}px`;
  };
  drawing.onmouseleave = () => { tip.style.display = 'none'; };
}

// series: [{name, points: [[x, y], ...], dots}]. Nothing where no series has a point.
function lineChart(title, {xLabel, yLabel, fromZero = false}, series) {
  const shown = series.filter(one => one.points.length > 0).slice(0, SERIES_MAX);
  if (shown.length === 0) return [];
  const points = shown.flatMap(one => one.points);
  const x = rangeOf(points.map(point => point[0]));
  const y = roundedRange(points.map(point => point[1]).concat(fromZero ? [0] : []));
  const atX = scale(x, LEFT, WIDTH - RIGHT), atY = scale(y, HEIGHT - BOTTOM, TOP);
  const drawing = picture('chart', title, HEIGHT,
                          [...axes(x, y, atX, atY, xLabel), ...shown.flatMap((one, i) => drawn(one, i, atX, atY))]);
  showValues(drawing, shown, atX, atY);
  const keys = shown.map(({name}, i) => html('span', {class: 'key'}, html('i', {class: `s${i}`}), name));
  return [html('figure', {}, html('figcaption', {}, `${title} `, html('small', {}, yLabel)), drawing,
               html('div', {class: 'legend'}, ...keys))];
}

// ---- Bar charts ----

const BARS_MAX = 48;
const BAR_HEIGHT = 18, BAR_PITCH = 24, BAR_LEFT = 170, BAR_RIGHT = 90;
const BAR_NAME_MAX = 26;

// bars: [{name, value, marked}], from 0. Nothing where there is none.
function barChart(title, toText, bars) {
  if (bars.length === 0) return [];
  const shown = bars.slice(0, BARS_MAX);
  const highest = Math.max(...shown.map(bar => bar.value));
  const marks = shown.flatMap(({name, value, marked}, i) => {
    const top = i * BAR_PITCH;
    const width = highest > 0 ? Math.max(0, value) / highest * (WIDTH - BAR_LEFT - BAR_RIGHT) : 0;
    const label = name.length > BAR_NAME_MAX ? '..' + name.slice(2 - BAR_NAME_MAX) : name;
    const box = {x: BAR_LEFT, y: top, width: at(Math.max(width, 1)), height: BAR_HEIGHT, rx: 2};
    return [
      svg('text', {class: 'name', x: BAR_LEFT - 8, y: top + 13.5, 'text-anchor': 'end'}, label),
      svg('rect', {class: marked ? 'bar marked' : 'bar', ...box}),
      svg('text', {class: 'value', x: at(BAR_LEFT + width + 6), y: top + 13.5}, toText(value)),
    ];
  });
  const more = bars.length > shown.length ? [html('small', {}, `and ${bars.length - shown.length} more`)] : [];
  const drawing = picture('bars', title, shown.length * BAR_PITCH, marks);
  return [html('figure', {}, html('figcaption', {}, title), drawing, ...more)];
}

// ---- Sections ----

// columns: [[title, class]]; a cell is text, or [text, class] where its class is not the column's.
function table(title, id, columns, rows, total = rows.length) {
  if (rows.length === 0) return [];
  const note = total > rows.length ? [html('small', {}, ` the last ${rows.length} of ${total}`)] : [];
  const head = html('tr', {}, ...columns.map(([name, kind]) => html('th', {class: kind}, name)));
  const body = rows.map(row => html('tr', {}, ...row.map((cell, i) => {
    const [text, kind] = Array.isArray(cell) ? cell : [cell, columns[i][1]];
    return html('td', {class: kind}, text);
  })));
  return [html('h2', {}, title, ...note),
          html('div', {class: 'scroll'}, html('table', {id}, html('tbody', {}, head, ...body)))];
}

const charts = (...figures) => figures.length > 0 ? [html('div', {class: 'charts'}, ...figures)] : [];
const isTrainer = process => process.role.startsWith('trainer-');
const nameOf = process => `${process.node}/${process.role}`;
const sum = values => values.reduce((total, value) => total + value, 0);

function head() {
  const known = job.processes.filter(process => process.started_ms > 0);  // others are damaged records
  const trainers = job.processes.filter(isTrainer);
  const begin = Math.min(...known.map(process => process.started_ms));
  const end = Math.max(0, ...known.map(process => process.ended_ms));
  const runs = known.some(process => process.ended_ms === 0);
  const nodes = new Set(known.map(process => process.node)).size;
  const examples = sum(trainers.map(process => process.examples));
  const rate = sum(trainers.map(process => process.rate));
  const tiles = [
    runs ? ['running', 'state'] : [span(known.length > 0 ? end - begin : 0), 'duration'],
    [counted(trainers.length, 'trainer'),
     `${counted(job.processes.length - trainers.length, 'pserver')}, ${counted(nodes, 'node')}`],
  ];
  if (examples > 0) tiles.push([whole(examples), 'examples trained on']);
  if (rate > 0) tiles.push([short(rate), 'examples/s of all trainers']);
  if (job.held_out.cost.length > 0) tiles.push([figure5(job.held_out.cost.at(-1)[1]), 'held-out cost, the last']);
  const failed = known.some(process => process.failed) ? [' ', html('span', {class: 'bad'}, 'failed')] : [];
  const tile = ([value, name]) => html('div', {class: 'tile'}, html('b', {}, value), html('span', {}, name));
  return [html('h1', {}, job.job),
          html('div', {class: 'sub'}, `${utc(known.length > 0 ? begin : 0)} UTC`, ...failed),
          html('div', {class: 'tiles'}, ...tiles.map(tile))];
}

function curves() {
  const of = key => job.curves.map(curve => ({name: curve.role, points: curve[key]}));
  const heldOut = {name: 'held-out', points: job.held_out.cost, dots: true};
  const cost = {xLabel: 'batches', yLabel: 'since the line before; dots: on held-out data'};
  const rate = {xLabel: 'seconds since the start', yLabel: 'examples/s of a trainer', fromZero: true};
  const evaluator = {xLabel: 'batches', yLabel: 'on held-out data'};
  return charts(...lineChart('Cost', cost, [...of('cost'), heldOut]), ...lineChart('Throughput', rate, of('rate')),
                ...job.held_out.evaluators.flatMap(one => lineChart(one.name, evaluator, [one])));
}

function nodes() {
  const trainers = job.processes.filter(isTrainer);
  const busy = trainers.length > 0 && trainers.every(process => process.busy_rate > 0);
  const bars = (processes, key) => processes.filter(process => process[key] > 0)
    .map(process => ({name: nameOf(process), value: process[key], marked: key.endsWith('rate') && process.slow}));
  return [html('h2', {}, 'Nodes'), ...job.slow.map(text => html('p', {class: 'bad'}, text)),
          ...charts(...barChart(busy ? 'Examples/s while not waiting for others' : 'Examples/s', short,
                                bars(trainers, busy ? 'busy_rate' : 'rate')),
                    ...barChart('Memory (peak, of those that ended)', bytes, bars(job.processes, 'memory_bytes')),
                    ...barChart('Processor time', span, bars(job.processes, 'cpu_ms')))];
}

const passes = () => table(
  'Passes', 'passes', [['pass', 'n'], ['data', ''], ['examples', 'n'], ['cost', 'n'], ['evaluators', 'long']],
  job.passes.map(pass => [
    String(pass.pass), pass.data, whole(pass.examples), figure5(pass.cost),
    pass.evaluators.map(({name, value}) => `${name} ${figure5(value)}`).join('  ')]),
  job.passes_total);

// Bucket 0 counts lag 0; bucket i counts lags of i bits: 1, 2 to 3, 4 to 7, ...
function lagName(bucket) {
  const low = bucket === 0 ? 0 : 2 ** (bucket - 1), high = bucket === 0 ? 0 : 2 ** bucket - 1;
  return low === high ? `lag ${low}` : `lag ${low} to ${high}`;
}

const pservers = () => [
  ...table('Parameter servers', 'shards',
           [['node', ''], ['role', ''], ['port', 'n'], ['kind', ''],
            ['rows', 'n'], ['memory', 'n'], ['pushes', 'n'], ['batches', 'n']],
           job.ports.map(one => [one.node, one.role, String(one.port), one.sparse ? 'sparse' : 'dense',
                                 whole(one.rows), bytes(one.bytes), whole(one.pushes), whole(one.batches)])),
  ...charts(...barChart('Pushes by the batches of others applied since their values were read', whole,
                        job.lags.map((value, bucket) => ({name: lagName(bucket), value})))),
];

const events = () => table(
  'Events', 'events', [['UTC', ''], ['who', ''], ['what', 'long']],
  job.events.map(event => [utc(event.unix_ms), event.role, [event.text, event.is_bad ? 'long bad' : 'long']]),
  job.events_total);

const PROCESSES_MAX = 1000;
const processes = () => table(
  'Processes', 'processes', [['node', ''], ['role', ''], ['state', ''], ['ran', 'n'], ['arguments', 'long']],
  job.processes.slice(0, PROCESSES_MAX).map(process => [
    process.node, process.role, [process.state, process.failed ? 'bad' : ''],
    process.ended_ms > 0 ? span(process.ended_ms - process.started_ms) : '-', process.arguments]));

const configuration = () => job.configuration === '' ? [] :
  [html('h2', {}, 'Configuration'), html('pre', {id: 'configuration'}, job.configuration)];

main.replaceChildren(...head(), ...curves(), ...nodes(), ...passes(), ...pservers(), ...events(), ...processes(),
                     ...configuration());
document.documentElement.dataset.script = 'ran';
