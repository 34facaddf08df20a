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
// A process that is looked at live also has "now" (see ProcessRecord).
std::string job_json(const JobRecord& record);

// Curves and figures that the page shows of the metrics. They point into the record, and are valid
// until lines or processes are added there.
struct JobFigures {
  std::vector<TrainerCurve> curves;
  std::vector<SlowTrainer> slow;
  std::vector<EvaluatorCurves> evaluators;
};
JobFigures figures_of(const JobRecord& record);
// The object's keys, with their values.
Json::Fields job_fields(const JobRecord& record, const JobFigures& figures);
// The list at "processes".
Json processes_json(const JobRecord& record, const JobFigures& figures);
Json slow_json(const JobFigures& figures);

// The list at "evaluators".
Json evaluators_json(const std::vector<EvaluatorCurves>& evaluators);
// The text of the JSON for a <script> element: '<' is written \u003c.
std::string script_text(const Json& json);

}  // namespace paddle::cli
