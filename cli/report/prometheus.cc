#include "cli/report/prometheus.h"

#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : escape_control(text)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{:.17g}", value);
}

// The samples of one metric family, which the format requires in one block.
class Family {
 public:
  Family(std::string_view name, std::string_view type, std::string_view help)
      : name_(name), head_(fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type)) {}

  void add(const Labels& labels, double value, std::string_view suffix = "") {
    samples_ += fmt::format("{}{}{{", name_, suffix);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      samples_ += fmt::format("{}{}=\"{}\"", i == 0 ? "" : ",", labels[i].first,
                              label_value(labels[i].second));
    }
    samples_ += fmt::format("}} {}\n", number_text(value));
  }
  std::string text() const { return samples_.empty() ? "" : head_ + samples_; }

 private:
  std::string name_, head_, samples_;
};

class Exposition {
 public:
  void add(const std::string& job, const ProcessView& process) {
    const Labels own{{"job", job}, {"node", process.node}, {"role", process.status.name}};
    up_.add(own, is_running(process.status) ? 1 : 0);
    started_.add(own, static_cast<double>(process.status.started_unix_ms) / 1000);
    if (const auto& usage = process.status.usage) {
      memory_.add(own, static_cast<double>(usage->resident_bytes));
      cpu_.add(own, static_cast<double>(usage->cpu_ms) / 1000);
      if (usage->received_bytes) received_.add(own, static_cast<double>(*usage->received_bytes));
      if (usage->sent_bytes) sent_.add(own, static_cast<double>(*usage->sent_bytes));
    }
    if (process.heard_ms_ago) heard_.add(own, static_cast<double>(*process.heard_ms_ago) / 1000);
    if (is_pserver(process.status)) return add_shards(own, process);
    if (process.last) {
      pass_.add(own, static_cast<double>(process.last->pass));
      batch_.add(own, static_cast<double>(process.last->batch));
      if (process.last->cost) cost_.add(own, *process.last->cost);
      add_evaluators(own, *process.last, evaluator_);
    }
    if (process.examples_per_second) rate_.add(own, *process.examples_per_second);
    if (process.last_test && process.last_test->cost) test_cost_.add(own, *process.last_test->cost);
    if (process.last_test) add_evaluators(own, *process.last_test, test_evaluator_);
  }

  void add_slow(const std::string& job, const SlowTrainer& slow) {
    slow_.add({{"job", job}, {"node", slow.node}, {"role", slow.role}}, slow.rate / slow.median);
  }

  std::string text() const {
    std::string all;
    for (const Family* family : {&up_, &started_, &memory_, &cpu_, &received_, &sent_, &heard_,
                                 &pass_, &batch_, &cost_, &evaluator_, &rate_, &slow_, &test_cost_,
                                 &test_evaluator_, &rows_, &bytes_, &pushes_, &lags_}) {
      all += family->text();
    }
    return all;
  }

 private:
  static void add_evaluators(const Labels& own, const MetricsLine& line, Family& family) {
    for (const auto& [name, value] : line.evaluators()) {
      Labels labels = own;
      labels.emplace_back("evaluator", name);
      family.add(labels, value);
    }
  }

  void add_shards(const Labels& own, const ProcessView& process) {
    for (const auto& [port, line] : process.ports) {
      Labels labels = own;
      labels.emplace_back("port", fmt::format("{}", port));
      rows_.add(labels, line.number("rows").value_or(0));
      bytes_.add(labels, line.number("bytes").value_or(0));
      pushes_.add(labels, line.number("pushes").value_or(0));
      for (const auto& [key, values] : line.lists) {
        if (key == "lags") add_lags(labels, values);
      }
    }
  }

  // Buckets of lags 0, 1, 2-3, 4-7, ...: the upper bounds are powers of two less one.
  void add_lags(const Labels& own, const std::vector<double>& counts) {
    double total = 0;
    double sum = 0;  // a lower bound, from the buckets' lower ends
    for (std::size_t i = 0; i < counts.size(); ++i) {
      total += counts[i];
      sum += i == 0 ? 0 : counts[i] * std::ldexp(1, static_cast<int>(i) - 1);
      Labels labels = own;
      labels.emplace_back("le", number_text(std::ldexp(1, static_cast<int>(i)) - 1));
      lags_.add(labels, total, "_bucket");
    }
    Labels labels = own;
    labels.emplace_back("le", "+Inf");
    lags_.add(labels, total, "_bucket");
    lags_.add(own, sum, "_sum");
    lags_.add(own, total, "_count");
  }

  Family up_{"paddle_process_up", "gauge", "1 while the process runs"};
  Family started_{"paddle_process_start_time_seconds", "gauge", "unix time of its start"};
  Family memory_{"paddle_process_resident_memory_bytes", "gauge",
                 "with all it started; the peak, once it ended"};
  Family cpu_{"paddle_process_cpu_seconds_total", "counter", "processor time used"};
  Family received_{"paddle_process_network_received_bytes", "gauge",
                   "through the TCP connections open now"};
  Family sent_{"paddle_process_network_sent_bytes", "gauge",
               "through the TCP connections open now"};
  Family heard_{"paddle_process_silent_seconds", "gauge", "since its last line of log or metrics"};
  Family pass_{"paddle_trainer_pass", "gauge", "the pass it is in, from 0"};
  Family batch_{"paddle_trainer_batch", "gauge", "batches of that pass it has trained on"};
  Family cost_{"paddle_trainer_cost", "gauge", "mean cost since the pass began"};
  Family evaluator_{"paddle_trainer_evaluator", "gauge", "since the pass began"};
  Family rate_{"paddle_trainer_examples_per_second", "gauge", "at its last log point"};
  Family slow_{"paddle_trainer_slow_ratio", "gauge",
               "of a slow trainer: its rate by the median of the others"};
  Family test_cost_{"paddle_test_cost", "gauge", "on held-out data, the last time"};
  Family test_evaluator_{"paddle_test_evaluator", "gauge", "on held-out data, the last time"};
  Family rows_{"paddle_pserver_rows", "gauge", "rows of the sparse tables of a port"};
  Family bytes_{"paddle_pserver_table_bytes", "gauge", "memory of the parameters of a port"};
  Family pushes_{"paddle_pserver_pushes_total", "counter", "pushes applied by a port"};
  Family lags_{"paddle_pserver_lag", "histogram",
               "batches of others applied since a push's values were read"};
};

}  // namespace

std::string prometheus_text(const JobView& view) {
  Exposition page;
  for (const ProcessView& process : view.processes()) page.add(view.job(), process);
  for (const SlowTrainer& slow : slow_trainers(view.processes())) page.add_slow(view.job(), slow);
  return page.text();
}

}  // namespace paddle::cli
