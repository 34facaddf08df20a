// A job's record as JSON, which templates/report/report.js draws.
#pragma once

#include <string>

#include "cli/console/json.h"
#include "cli/report/curves.h"
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
//   evaluators                  {name, higher_is_better, one_is_best, held_out: points, training:
//                               points, best and last: {value, pass}}: the headline first; the cost
//                               is one
//   test_curves                 {kind, name, pass, points} of the last test
//   progress                    {pass, passes, pass_done} of trainer 0, or null
//   commands                    {unix_ms, text, version}: as typed
//   tags, note, git             of the last start: texts, a text, and as in GitState::text()
//   machines                    {node, processor, cores, memory_bytes, os, kernel, gpus,
//                               agent_version}
//   passes, passes_total        the last 50 and the best of each evaluator: {pass, data, examples,
//                               cost, evaluators}; how many passes there are in all
//   ports, lags                 newest figures of each pserver port that was used; pushes by bits
//                               of their lag
//   events, events_total        the faults and the last others, up to 400: {unix_ms, role, text,
//                               is_bad}; how many there are in all
// Control characters in text from nodes are escaped, and '<' is written \u003c, so that the JSON
// can be inside a <script> element.
std::string job_json(const JobRecord& record);

// The list at "evaluators".
Json evaluators_json(const std::vector<EvaluatorCurves>& evaluators);
// The text of the JSON for a <script> element: '<' is written \u003c.
std::string script_text(const Json& json);

}  // namespace paddle::cli
