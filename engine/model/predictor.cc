#include "engine/model/predictor.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/json.h"
#include "base/named_rows.h"
#include "engine/config/layer_keys.h"
#include "engine/math/costs.h"
#include "engine/math/gemm.h"

namespace paddle::inference {
namespace {

void add(fmt::memory_buffer& to, std::string_view text) {
  to.append(text.data(), text.data() + text.size());
}

// Appends the values of a line: one alone, or several with `separator` between them, in brackets
// for a JSON list.
template <class T>
void add_values(fmt::memory_buffer& to, std::span<const T> values, LineFormat format,
                char separator, bool is_list) {
  const bool in_brackets = format == LineFormat::kJson && is_list;
  if (in_brackets) to.push_back('[');
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) to.push_back(separator);
    if constexpr (std::is_same_v<T, float>) {
      if (format == LineFormat::kJson && !std::isfinite(values[i])) {
        add(to, "null");
        continue;
      }
    }
    fmt::format_to(std::back_inserter(to), "{}", values[i]);
  }
  if (in_brackets) to.push_back(']');
}

// Appends a text as a field of csv, in quotes if it needs them, or as a JSON string.
void add_text(fmt::memory_buffer& to, const std::string& text, LineFormat format) {
  if (format == LineFormat::kJson) return add(to, json_text(text));
  if (text.find_first_of(",\"\r\n") == std::string::npos) return add(to, text);
  to.push_back('"');
  for (const char c : text) {
    if (c == '"') to.push_back('"');
    to.push_back(c);
  }
  to.push_back('"');
}

// As add_values(), for names of classes.
void add_names(fmt::memory_buffer& to, std::span<const std::uint64_t> ids,
               const std::vector<std::string>& names, LineFormat format, bool is_list) {
  const bool in_brackets = format == LineFormat::kJson && is_list;
  if (in_brackets) to.push_back('[');
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) to.push_back(format == LineFormat::kJson ? ',' : ' ');
    add_text(to, ids[i] < names.size() ? names[ids[i]] : fmt::format("{}", ids[i]), format);
  }
  if (in_brackets) to.push_back(']');
}

// Several labels of one record are "1 7" in csv, [1,7] in JSON.
void add_label(fmt::memory_buffer& to, const nn::Slot& slot, std::size_t width,
               const std::vector<std::string>& names, std::size_t record, LineFormat format) {
  const char separator = format == LineFormat::kJson ? ',' : ' ';
  if (width > 0) {
    const auto values = std::span(slot.values).subspan(record * width, width);
    return add_values<float>(to, values, format, separator, width > 1);
  }
  const bool is_list = !slot.offsets.empty();
  const std::size_t first = is_list ? slot.offsets[record] : record;
  const std::size_t count = is_list ? slot.offsets[record + 1] - first : 1;
  const std::span<const std::uint64_t> ids = std::span(slot.ids).subspan(first, count);
  if (!names.empty()) return add_names(to, ids, names, format, is_list);
  add_values<std::uint64_t>(to, ids, format, separator, is_list);
}

}  // namespace

const config::LayerConfig& first_cost(const config::JobConfig& job) {
  const auto found = std::ranges::find_if(job.layers, [](const config::LayerConfig& layer) {
    return find_row(config::layer_types(), layer.type)->reads("label");
  });
  PADDLE_CHECK(found != job.layers.end());  // read_job() refuses a job without one
  return *found;
}

bool scores_records(const config::JobConfig& job) {
  const std::string& type = first_cost(job).type;
  return type != "nce" && type != "negative_sampling";
}

Result<std::string> output_layer(const config::JobConfig& job, const std::string& layer) {
  if (!layer.empty()) return layer;
  const config::LayerConfig& cost = first_cost(job);
  if (scores_records(job)) return cost.inputs.front();
  return Error{Errc::kUsage,
               fmt::format("the cost '{}' is of type {}, which compares a record with sampled "
                           "classes and computes no score",
                           cost.name, cost.type),
               fmt::format("--layer={} prints its input", cost.inputs.front())};
}

Result<Predictor> Predictor::build(const config::JobConfig& job, const std::string& layer,
                                   LineFormat format, bool with_labels) {
  const config::LayerConfig& cost = first_cost(job);
  PADDLE_TRY(const std::string output, output_layer(job, layer));
  const auto slots = config::data_slots(job.data);
  PADDLE_TRY_STATUS(kernels::reserve_products(job.train.trainer_count));
  PADDLE_TRY(nn::Network network, nn::Network::build(job.layers, slots, job.evaluators, output));
  Predictor predictor(std::move(network), format);
  predictor.is_layer_ = !layer.empty();
  predictor.with_labels_ = with_labels;
  predictor.compute_ = job.train.compute;
  if (layer.empty() && cost.type == "binary_cross_entropy")
    predictor.score_ = Score::kProbabilities;
  if (layer.empty() && cost.type == "softmax_cross_entropy") predictor.score_ = Score::kClasses;
  const auto label = std::ranges::find(slots, cost.label, &config::SlotConfig::name);
  if (label != slots.end()) {
    predictor.label_slot_ = label - slots.begin();
    predictor.label_width_ = label->width;
    predictor.class_names_ = label->labels;
  }
  const std::size_t names = predictor.class_names_.size(),
                    outputs = predictor.network_.output_width();
  const bool names_all = predictor.score_ == Score::kClasses ? names == outputs && names > 1
                                                             : names == 2 && outputs == 1;
  predictor.lists_classes_ =
      predictor.score_ != Score::kValues && names_all && names <= kClassColumnsMax;
  return predictor;
}

std::string Predictor::header() const {
  if (!lists_classes_ || format_ == LineFormat::kJson) return "";
  fmt::memory_buffer line;
  add(line, with_labels_ ? "label,class" : "class");
  for (const std::string& name : class_names_) {
    line.push_back(',');
    add_text(line, name, format_);
  }
  return fmt::to_string(line) + "\n";
}

void Predictor::make_probabilities(std::vector<float>& scores) const {
  if (scores.size() > 2) return kernels::softmax_rows(1, scores.size(), scores.data());
  // As in the evaluator auc.
  const float second =
      kernels::sigmoid(scores.size() == 2 ? scores[1] - scores[0] : scores.front());
  scores = {1 - second, second};
}

void Predictor::add_classes(std::span<const float> probabilities, fmt::memory_buffer& lines) const {
  const bool is_json = format_ == LineFormat::kJson;
  const auto likeliest =
      static_cast<std::uint64_t>(std::ranges::max_element(probabilities) - probabilities.begin());
  add(lines, is_json ? "\"class\":" : "");
  add_names(lines, {&likeliest, 1}, class_names_, format_, false);
  if (!is_json) {
    lines.push_back(',');
    return add_values<float>(lines, probabilities, format_, ',', true);
  }
  const std::size_t shown = probabilities.size() == 2 ? 1 : likeliest;
  add(lines, ",\"score\":");
  add_values<float>(lines, probabilities.subspan(shown, 1), format_, ',', false);
  add(lines, ",\"probabilities\":{");
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    add(lines, i > 0 ? "," : "");
    add_text(lines, class_names_[i], format_);
    lines.push_back(':');
    add_values<float>(lines, probabilities.subspan(i, 1), format_, ',', false);
  }
  lines.push_back('}');
}

bool Predictor::has_independent_records() {
  return kernels::has_independent_rows();
}

Result<RowCounts> Predictor::read_rows(const nn::Batch& batch, const Parameters& parameters,
                                       Scratch& scratch, DistinctIds* distinct) const {
  PADDLE_TRY_STATUS(network_.check(batch));
  const auto& specs = network_.parameters();
  scratch.ids.resize(specs.size());
  scratch.rows.resize(specs.size());
  scratch.lookups.resize(specs.size());
  scratch.parameters.dense.resize(specs.size());
  scratch.parameters.sparse.resize(specs.size());
  network_.collect_ids(batch, 0, scratch.ids);
  RowCounts counts;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!specs[i].sparse()) {
      scratch.parameters.dense[i] = parameters.dense(i);
      continue;
    }
    counts.add(parameters.read_rows(i, scratch.ids[i], scratch.rows[i], distinct));
    scratch.lookups[i].build(scratch.ids[i]);
    scratch.parameters.sparse[i] = {scratch.ids[i], scratch.rows[i], &scratch.lookups[i]};
  }
  return counts;
}

Status Predictor::compute(const nn::Batch& batch, std::size_t begin, std::size_t end,
                          Scratch& scratch) const {
  const nn::Run run{.batch = batch,
                    .begin = begin,
                    .end = end,
                    .parameters = scratch.parameters,
                    .mode = nn::Mode::kTest,
                    .compute = compute_};
  scratch.begin = begin;
  PADDLE_TRY_STATUS(network_.forward(run, scratch.workspace));
  return {};
}

Result<RowCounts> Predictor::predict(const nn::Batch& batch, const Parameters& parameters,
                                     Scratch& scratch, fmt::memory_buffer& lines,
                                     DistinctIds* distinct) const {
  PADDLE_TRY(const RowCounts counts, read_rows(batch, parameters, scratch, distinct));
  PADDLE_TRY_STATUS(compute(batch, 0, batch.size, scratch));
  for (std::size_t record = 0; record < batch.size; ++record)
    add_line(batch, record, scratch, lines);
  return counts;
}

void Predictor::add_line(const nn::Batch& batch, std::size_t record, Scratch& scratch,
                         fmt::memory_buffer& lines) const {
  const std::size_t width = network_.output_width();
  const std::span<const float> outputs =
      network_.output(scratch.workspace).subspan((record - scratch.begin) * width, width);
  const bool is_json = format_ == LineFormat::kJson;
  if (is_json) lines.push_back('{');
  if (with_labels_) {
    add(lines, is_json ? "\"label\":" : "");
    if (label_slot_)
      add_label(lines, batch.slots[*label_slot_], label_width_, class_names_, record, format_);
    lines.push_back(',');
  }
  scratch.scores.assign(outputs.begin(), outputs.end());
  std::vector<float>& scores = scratch.scores;
  if (lists_classes_) {
    make_probabilities(scores);
    add_classes(scores, lines);
    return add(lines, is_json ? "}\n" : "\n");
  }
  std::string_view name = is_layer_ ? "values" : scores.size() > 1 ? "scores" : "score";
  if (score_ == Score::kProbabilities)
    std::ranges::transform(scores, scores.begin(), kernels::sigmoid);
  if (score_ == Score::kClasses) {
    if (scores.size() == 2) {
      scores = {kernels::sigmoid(scores[1] - scores[0])};  // as in the evaluator auc
    } else {
      const auto likeliest =
          static_cast<std::uint64_t>(std::ranges::max_element(outputs) - outputs.begin());
      kernels::softmax_rows(1, scores.size(), scores.data());
      add(lines, is_json ? "\"class\":" : "");
      if (class_names_.empty()) {
        fmt::format_to(std::back_inserter(lines), "{}", likeliest);
      } else {
        add_names(lines, {&likeliest, 1}, class_names_, format_, false);
      }
      lines.push_back(',');
      scores = {scores[likeliest]};
    }
    name = "score";
  }
  if (is_json) fmt::format_to(std::back_inserter(lines), "\"{}\":", name);
  add_values<float>(lines, scores, format_, ',', name != "score");
  add(lines, is_json ? "}\n" : "\n");
}

}  // namespace paddle::inference
