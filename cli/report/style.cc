#include "cli/report/style.h"

namespace paddle::cli {

// Eight hues that colour-blind readers tell apart too (after Okabe and Ito), lighter in the dark.
const char* const kReportStyle = R"css(
:root{color-scheme:light dark;--page:#fff;--text:#1b1f24;--quiet:#5c6570;--line:#e3e6ea;
--box:#f6f7f9;--bad:#b3261e;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b05a91;--c4:#b8860b;--c5:#56a0d3;--c6:#6b4fa0;
--c7:#666}
@media(prefers-color-scheme:dark){:root{--page:#14171a;--text:#e4e7ea;--quiet:#98a1ab;
--line:#2c3238;--box:#1c2126;
--bad:#ff8a80;--c0:#5ab0e8;--c1:#ff9655;--c2:#3ccb9f;--c3:#e298c6;--c4:#e3bb4f;--c5:#9ed0f5;
--c6:#b39ddb;--c7:#b0b0b0}}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,sans-serif}
main{max-width:1180px;margin:0 auto;padding:24px 20px 60px}
h1{font-size:24px;margin:0;overflow-wrap:anywhere}h2{font-size:17px;margin:34px 0 10px}
.sub,small{color:var(--quiet)}.bad{color:var(--bad);font-weight:600}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;
margin:20px 0}
.tile{background:var(--box);border-radius:8px;padding:10px 14px}.tile b{display:block;
font-size:21px;font-weight:600;
font-variant-numeric:tabular-nums}.tile span{color:var(--quiet);font-size:13px}
.charts{margin-top:14px;display:grid;
grid-template-columns:repeat(auto-fill,minmax(min(480px,100%),1fr));
gap:18px 26px}
figure{margin:0;min-width:0}figcaption{font-weight:600}figcaption small{font-weight:400}
svg{display:block;width:100%;height:auto;font-size:12px}svg text{fill:var(--quiet)}svg .name,
svg .value{fill:var(--text)}
.grid{stroke:var(--line)}polyline{fill:none;stroke:currentColor;stroke-width:1.8;
stroke-linejoin:round}
circle{fill:currentColor}.bar{fill:var(--c0)}.bar.marked{fill:var(--c1)}
.s0{color:var(--c0)}.s1{color:var(--c1)}.s2{color:var(--c2)}.s3{color:var(--c3)}
.s4{color:var(--c4)}.s5{color:var(--c5)}.s6{color:var(--c6)}.s7{color:var(--c7)}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:13px;padding-left:52px}
.key{overflow-wrap:anywhere}
.key i{display:inline-block;width:14px;height:3px;margin-right:6px;vertical-align:middle;
background:currentColor}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13.5px;
font-variant-numeric:tabular-nums;min-width:60%}
th{text-align:left;color:var(--quiet);font-weight:500}th,td{padding:4px 18px 4px 0;
border-bottom:1px solid var(--line);
vertical-align:top;white-space:nowrap}td.long{white-space:normal;overflow-wrap:anywhere;
min-width:280px}
.n{text-align:right}pre{background:var(--box);border-radius:8px;padding:14px;overflow-x:auto;
font-size:13px;line-height:1.45}
details summary{cursor:pointer;color:var(--quiet)}
#tip{position:fixed;display:none;pointer-events:none;background:var(--text);color:var(--page);
border-radius:5px;
padding:3px 8px;font-size:12.5px;white-space:nowrap}
)css";

// The value under the pointer: the nearest point of any line, in the units of the axes.
const char* const kReportScript = R"js(
const tip=document.getElementById('tip');
for(const svg of document.querySelectorAll('svg.chart')){
const [x0,x1,px0,px1]=svg.dataset.x.split(' ').map(Number),[y0,y1,py0,
py1]=svg.dataset.y.split(' ').map(Number);
const keys=[...svg.parentNode.querySelectorAll('.key')].map(k=>k.textContent);
const dots=[];
for(const line of svg.querySelectorAll('polyline'))for(const p of line.getAttribute('points')
.trim().split(/\s+/)){
const [x,y]=p.split(',').map(Number);dots.push([x,y,+line.getAttribute('class').slice(1)])}
for(const c of svg.querySelectorAll('circle'))dots.push([+c.getAttribute('cx'),
+c.getAttribute('cy'),
+c.getAttribute('class').slice(1)]);
svg.onmousemove=e=>{const box=svg.getBoundingClientRect(),k=box.width/svg.viewBox.baseVal.width;
const mx=(e.clientX-box.left)/k,my=(e.clientY-box.top)/k;let best=null,least=1e9;
for(const d of dots){const far=(d[0]-mx)**2+(d[1]-my)**2;if(far<least){least=far;best=d}}
if(!best||least>900){tip.style.display='none';return}
const x=x0+(best[0]-px0)/(px1-px0)*(x1-x0),y=y0+(best[1]-py0)/(py1-py0)*(y1-y0);
tip.textContent=keys[best[2]]+': '+(+y.toPrecision(4))+' at '+(+x.toPrecision(4));
tip.style.display='block';tip.style.left=Math.min(e.clientX+14,innerWidth-tip.offsetWidth-8)+'px';
tip.style.top=(e.clientY-30)+'px'};
svg.onmouseleave=()=>{tip.style.display='none'}}
document.documentElement.dataset.script='ran';
)js";

}  // namespace paddle::cli
