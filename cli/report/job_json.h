// A job's record as the JSON that templates/report/report.js draws.
#pragma once

#include <string>

#include "cli/report/record.h"

namespace paddle::cli {

// One object:
//   job, configuration          text
//   processes                   {node, role, state, failed, begun_ms, started_ms (the last time),
//                               ended_ms (0: runs), memory_bytes, cpu_ms, starts, log (a path
//                               beside the page, or ""), arguments; of trainers also examples,
//                               rate, busy_rate, slow}; 0 where a number is not known
//   slow                        a sentence for each slow trainer
//   curves                      {role, cost, rate}: points [x, y] of up to 7 trainers
//   evaluators                  {name, higher_is_better, held_out: points, training: points, best
//                               and last: {value, pass}}: the headline first; the cost is one
//   progress                    {pass, passes, pass_done} of trainer 0, or null
//   commands                    {unix_ms, text, version}: as typed
//   machines                    {node, processor, cores, memory_bytes, os, kernel, gpus,
//                               agent_version}
//   passes, passes_total        the last ones and the best: {pass, data, examples, cost,
//   evaluators} ports, lags                 newest figures of each pserver port that was used;
//   pushes by bits
//                               of their lag
//   events, events_total        the last ones: {unix_ms, role, text, is_bad}
// Text from nodes has its control characters escaped, and '<' stands as \u003c, so that the JSON
// can stand in a <script> element.
std::string job_json(const JobRecord& record);

}  // namespace paddle::cli
