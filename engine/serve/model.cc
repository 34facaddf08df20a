#include "engine/serve/model.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <utility>

#include <fmt/ranges.h>

#include "base/json.h"
#include "base/text_file.h"
#include "engine/serve/row_request.h"

namespace paddle::serve {
namespace {

std::atomic<std::uint64_t> g_models = 0;

Error too_much(std::string what) {
  return {Errc::kResource, std::move(what), "ask for less at a time"};
}

Error in_line(std::uint64_t line, Error error) {
  return std::move(error).with(fmt::format("line {}", line));
}

bool is_table(const wire::ParameterSpec& spec) {
  return spec.sparse() || spec.dims_size() == 2;
}

}  // namespace

Result<std::shared_ptr<const Model>> Model::load(const std::string& directory,
                                                 const ModelOptions& options) {
  PADDLE_TRY(const auto reader, snapshot::SnapshotReader::open(directory));
  // Not make_shared: the constructor is private.
  const std::shared_ptr<Model> model(new Model());
  model->number_ = ++g_models;
  model->name_ = std::filesystem::path(directory + "/").parent_path().filename();
  model->info_ = reader.info();
  PADDLE_TRY(model->description_, inference::read_description(reader, options.source));
  const config::JobConfig& job = model->description_.job;
  model->slots_ = config::data_slots(job.data);
  if (inference::scores_records(job) || !options.layer.empty()) {
    PADDLE_TRY(inference::Predictor text,
               inference::Predictor::build(job, options.layer, inference::LineFormat::kCsv, false));
    PADDLE_TRY(
        inference::Predictor json,
        inference::Predictor::build(job, options.layer, inference::LineFormat::kJson, false));
    model->text_.emplace(std::move(text));
    model->json_.emplace(std::move(json));
    model->specs_ = model->text_->parameters();
  } else {
    model->specs_ = reader.parameters();
  }
  PADDLE_TRY(inference::Parameters parameters, inference::Parameters::load(reader, model->specs_));
  model->parameters_.emplace(std::move(parameters));
  return std::shared_ptr<const Model>(model);
}

bool Model::joins_requests() {
  return inference::Predictor::has_independent_records();
}

void Model::prepare(Scratch& scratch) const {
  if (scratch.model != number_) {
    scratch.model = number_;
    scratch.format = data::make_format(description_.job.data, description_.dictionary);
    scratch.json.emplace(description_.job, description_.dictionary);
    scratch.batch = data::empty_batch(slots_, 0);
    scratch.network = {};
  }
  scratch.lines.clear();
  scratch.answers.clear();
}

std::vector<Result<std::string>> Model::predict(std::span<const std::string_view> requests,
                                                RecordFormat format, Scratch& scratch,
                                                Work& work) const {
  if (!text_) {
    const Result<std::string> none =
        Error{Errc::kData, "the network of this snapshot gives records no score",
              "--layer names one whose outputs are served; /v1/rows has its tables"};
    return std::vector(requests.size(), none);
  }
  prepare(scratch);
  for (const std::string_view request : requests) {
    scratch.answers.emplace_back();
    const Status all = read(request, format, scratch, work);
    // An error of the network is one of an earlier line.
    Scratch::Answer& answer = scratch.answers.back();
    if (!answer.is_refused) answer.outcome = all;
  }
  run(format, scratch, work);
  std::vector<Result<std::string>> replies;
  replies.reserve(requests.size());
  const char* lines = scratch.lines.data();
  for (const Scratch::Answer& answer : scratch.answers) {
    if (answer.outcome) {
      replies.emplace_back(std::string(lines, answer.bytes));
      work.records += answer.records;
    } else {
      replies.emplace_back(answer.outcome.error());
    }
    lines += answer.bytes;
  }
  return replies;
}

Status Model::read(std::string_view records, RecordFormat format, Scratch& scratch,
                   Work& work) const {
  const std::size_t request = scratch.answers.size() - 1;
  Scratch::Answer& answer = scratch.answers.back();
  std::uint64_t line = 0;
  records = without_byte_order_mark(records);
  while (!records.empty() && !answer.is_refused) {
    const std::size_t end = std::min(records.find('\n'), records.size());
    std::string_view text = records.substr(0, end);
    records.remove_prefix(std::min(end + 1, records.size()));
    if (text.ends_with('\r')) text.remove_suffix(1);
    ++line;
    if (text.empty()) continue;
    if (format == RecordFormat::kText && line == 1 && scratch.format->has_header() &&
        scratch.format->check_header(text))
      continue;
    scratch.block.clear();
    const Status parsed = format == RecordFormat::kJson
                              ? scratch.json->parse(text, scratch.block)
                              : scratch.format->parse(text, scratch.block);
    if (!parsed) return in_line(line, parsed.error());
    for (const data::RecordBlock::Extent& record : scratch.block.records) {
      if (++answer.records > kRecordsMax)
        return too_much(fmt::format("more than {} records", kRecordsMax));
      // A body has fewer ids than a batch can number.
      PADDLE_CHECK(data::append(slots_, scratch.block.view(record), scratch.batch));
      scratch.origins.push_back({request, line});
      if (scratch.batch.size == kRecordsAtOnce) run(format, scratch, work);
    }
  }
  return {};
}

void Model::run(RecordFormat format, Scratch& scratch, Work& work) const {
  const std::size_t size = scratch.batch.size;
  if (size == 0) return;
  const inference::Predictor& predictor = format == RecordFormat::kJson ? *json_ : *text_;
  const auto rows = predictor.read_rows(scratch.batch, *parameters_, scratch.network);
  PADDLE_CHECK(rows);  // append() makes no batch that is wrong
  work.rows.add(*rows);
  // After an error, such as an id that is out of range, each record alone, to know which it is of.
  const Status together = predictor.compute(scratch.batch, 0, size, scratch.network);
  for (std::size_t i = 0; i < size; ++i) {
    const auto [request, line] = scratch.origins[i];
    Scratch::Answer& answer = scratch.answers[request];
    if (answer.is_refused) continue;
    Status outcome =
        together ? Status() : predictor.compute(scratch.batch, i, i + 1, scratch.network);
    const std::size_t before = scratch.lines.size();
    if (outcome) {
      predictor.add_line(scratch.batch, i, scratch.network, scratch.lines);
      answer.bytes += scratch.lines.size() - before;
      if (answer.bytes > kReplyBytesMax)
        outcome = too_much(fmt::format("more than {} bytes of predictions", kReplyBytesMax));
    } else {
      outcome = in_line(line, outcome.error());
    }
    if (outcome) continue;
    scratch.lines.resize(scratch.lines.size() - std::exchange(answer.bytes, 0));
    answer.outcome = std::move(outcome);
    answer.is_refused = true;
  }
  scratch.origins.clear();
  data::clear(slots_, scratch.batch);
}

Result<std::size_t> Model::find_parameter(const std::string& name) const {
  std::vector<std::string> names;
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (!is_table(specs_[i])) continue;
    if (specs_[i].name() == name) return i;
    // Without a name a table of sparse rows goes before dense matrices.
    if (!specs_[i].sparse()) continue;
    names.push_back(specs_[i].name());
    found = i;
  }
  if (name.empty() && names.size() == 1) return *found;
  return Error{Errc::kData,
               name.empty()
                   ? fmt::format("'parameter' is missing: there are {} tables", names.size())
                   : fmt::format("there is no table '{}'", name),
               fmt::format("tables are {}", fmt::join(names, ", "))};
}

bool Model::read_row(std::size_t parameter, std::uint64_t id, std::vector<float>& values) const {
  if (specs_[parameter].sparse())
    return parameters_->read_rows(parameter, {&id, 1}, values).absent == 0;
  const auto width = static_cast<std::size_t>(specs_[parameter].dims(1));
  const std::span<const float> all = parameters_->dense(parameter);
  if (id >= all.size() / width) return false;
  const auto row = all.subspan(id * width, width);
  values.assign(row.begin(), row.end());
  return true;
}

Result<Work> Model::read_rows(std::string_view request, Scratch& scratch) const {
  PADDLE_TRY(const RowRequest wanted, parse_row_request(request, description_.dictionary));
  if (wanted.ids.size() > kIdsMax) return too_much(fmt::format("more than {} rows", kIdsMax));
  PADDLE_TRY(const std::size_t parameter, find_parameter(wanted.parameter));
  scratch.lines.clear();
  const auto out = std::back_inserter(scratch.lines);
  fmt::format_to(out, R"({{"parameter":{},"rows":[)", json_text(specs_[parameter].name()));
  Work work;
  std::vector<float> values;
  for (const std::uint64_t id : wanted.ids) {
    fmt::format_to(out, R"({}{{"id":{},"values":)", work.rows.asked++ > 0 ? "," : "", id);
    if (read_row(parameter, id, values)) {
      char before = '[';
      for (const float value : values) {
        scratch.lines.push_back(std::exchange(before, ','));
        fmt::format_to(out, fmt::runtime(std::isfinite(value) ? "{}" : "null"), value);
      }
      fmt::format_to(out, "]}}");
    } else {
      fmt::format_to(out, "null}}");
      ++work.rows.absent;
    }
    if (scratch.lines.size() > kReplyBytesMax)
      return too_much(fmt::format("more than {} bytes of rows", kReplyBytesMax));
  }
  fmt::format_to(out, "]}}\n");
  return work;
}

std::string Model::description() const {
  JsonArray parameters;
  for (const wire::ParameterSpec& spec : specs_) {
    const std::vector<std::uint64_t> shape(spec.dims().begin(), spec.dims().end());
    parameters.add(JsonObject()
                       .add("name", spec.name())
                       .add("kind", spec.sparse() ? "table" : "dense")
                       .add("shape", std::span<const std::uint64_t>(shape)));
  }
  JsonObject all;
  all.add("snapshot", name_).add("passes", info_.pass).add("step", info_.step);
  all.add("samples", info_.samples).add("records", inference::slots_json(description_.job.data));
  return all.add("predicts", text_.has_value()).add("parameters", parameters).text() + "\n";
}

}  // namespace paddle::serve
