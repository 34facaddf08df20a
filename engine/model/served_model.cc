#include "engine/model/served_model.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <utility>

#include <fmt/ranges.h>

#include "base/json.h"
#include "base/text_file.h"
#include "engine/config/data_check.h"
#include "engine/model/json_requests.h"

namespace paddle::serve {
namespace {

std::atomic<std::uint64_t> g_models = 0;

Error too_much(std::string what) {
  return {Errc::kResource, std::move(what), "ask for less at a time"};
}

Error at(Model::Scratch::Place place, Error error) {
  return std::move(error).with(
      fmt::format("{} {}", place.is_in_array ? "record" : "line", place.number));
}

// Bytes of the rows that layers read for each id of a slot, and of the look-up of an id.
std::vector<std::uint64_t> bytes_per_id(const config::JobConfig& job,
                                        const std::vector<config::SlotConfig>& slots) {
  constexpr std::uint64_t kLookUpBytes = 24;
  std::vector<std::uint64_t> bytes(slots.size(), kLookUpBytes);
  for (const config::LayerConfig& layer : job.layers) {
    if (!layer.weight.sparse) continue;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (std::ranges::find(layer.inputs, slots[i].name) == layer.inputs.end()) continue;
      bytes[i] += layer.size * sizeof(float) + kLookUpBytes;
    }
  }
  return bytes;
}

// Turns lines of JSON into an array.
std::string as_array(std::string lines) {
  if (lines.ends_with('\n')) lines.pop_back();
  std::ranges::replace(lines, '\n', ',');
  return "[" + lines + "]\n";
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
  model->bytes_per_id_ = bytes_per_id(job, model->slots_);
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
    scratch.preparation.emplace(description_.job.data);
    scratch.batch = data::empty_batch(slots_, 0);
    scratch.network = {};
  }
  scratch.lines.clear();
  scratch.answers.clear();
  scratch.row_bytes = 0;
}

std::vector<Result<Predictions>> Model::predict(std::span<const std::string_view> requests,
                                                RecordFormat format, Scratch& scratch,
                                                Work& work) const {
  if (!text_) {
    const Result<Predictions> none =
        Error{Errc::kData, "the network of this snapshot computes no score",
              "choose a layer to serve its outputs: --layer; /v1/rows serves its tables"};
    return std::vector(requests.size(), none);
  }
  prepare(scratch);
  for (const std::string_view request : requests) {
    scratch.answers.emplace_back();
    scratch.is_large = scratch.is_large || request.size() > kLargeBytes / 4;
    const Status all = format == RecordFormat::kJson ? read_json(request, scratch, work)
                                                     : read_text(request, scratch, work);
    // An error of the network concerns an earlier line.
    Scratch::Answer& answer = scratch.answers.back();
    if (!answer.is_refused) answer.outcome = all;
  }
  run(format, scratch, work);
  std::vector<Result<Predictions>> replies;
  replies.reserve(requests.size());
  const char* lines = scratch.lines.data();
  for (const Scratch::Answer& answer : scratch.answers) {
    if (answer.outcome) {
      std::string text(lines, answer.bytes);
      if (answer.is_array) text = as_array(std::move(text));
      replies.emplace_back(Predictions{std::move(text), answer.is_array});
      work.records += answer.records;
    } else {
      replies.emplace_back(answer.outcome.error());
    }
    lines += answer.bytes;
  }
  return replies;
}

Status Model::read_text(std::string_view records, Scratch& scratch, Work& work) const {
  const Scratch::Answer& answer = scratch.answers.back();
  std::uint64_t line = 0;
  records = without_byte_order_mark(records);
  while (!records.empty() && !answer.is_refused) {
    const std::size_t end = std::min(records.find('\n'), records.size());
    std::string_view text = records.substr(0, end);
    records.remove_prefix(std::min(end + 1, records.size()));
    if (text.ends_with('\r')) text.remove_suffix(1);
    ++line;
    if (text.empty()) continue;
    if (line == 1 && scratch.format->has_header() &&
        config::names_columns(text, description_.job.data))
      continue;
    scratch.block.clear();
    const Status parsed = scratch.format->parse(text, scratch.block);
    if (!parsed) return at({line}, parsed.error());
    PADDLE_TRY_STATUS(take_block({line}, RecordFormat::kText, scratch, work));
  }
  return {};
}

Status Model::read_json(std::string_view records, Scratch& scratch, Work& work) const {
  JsonValues values(records);
  Scratch::Answer& answer = scratch.answers.back();
  answer.is_array = values.is_array();
  while (!answer.is_refused) {
    const auto value = values.next();
    const Scratch::Place place{values.number(), values.is_array()};
    if (!value) return at(place, value.error());
    if (!*value) return {};
    scratch.block.clear();
    if (const Status parsed = scratch.json->parse(**value, scratch.block); !parsed) {
      Error error = parsed.error();
      if (error.hint.empty() && !(*value)->starts_with('{'))
        error.hint = "send one object per line, or an array of objects";
      return at(place, std::move(error));
    }
    PADDLE_TRY_STATUS(take_block(place, RecordFormat::kJson, scratch, work));
  }
  return {};
}

std::uint64_t Model::row_bytes(const data::RecordView& record) const {
  std::uint64_t bytes = 0;
  std::size_t lists = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].width > 0) continue;
    bytes += bytes_per_id_[i] * (slots_[i].many ? record.counts[lists++] : 1);
  }
  return bytes;
}

Status Model::take_block(Scratch::Place place, RecordFormat format, Scratch& scratch,
                         Work& work) const {
  Scratch::Answer& answer = scratch.answers.back();
  if (Status prepared = scratch.preparation->prepare(0, scratch.block); !prepared)
    return at(place, std::move(prepared).error());
  for (const data::RecordBlock::Extent& extent : scratch.block.records) {
    if (++answer.records > kRecordsMax)
      return too_much(fmt::format("more than {} records", kRecordsMax));
    const data::RecordView record = scratch.block.view(extent);
    const std::uint64_t bytes = row_bytes(record);
    if (bytes > kRecordRowBytesMax) {
      return at(place, {Errc::kResource,
                        fmt::format("the rows of its ids take {} MiB, more than the {} MiB for a "
                                    "record",
                                    bytes >> 20U, kRecordRowBytesMax >> 20U),
                        "send fewer ids in a record"});
    }
    if (scratch.row_bytes + bytes > kRowBytesAtOnce) run(format, scratch, work);
    scratch.row_bytes += bytes;
    scratch.is_large = scratch.is_large || bytes > kLargeBytes;
    // A body has fewer ids than a batch can number.
    PADDLE_CHECK(data::append(slots_, record, scratch.batch));
    scratch.origins.push_back({scratch.answers.size() - 1, place});
    if (scratch.batch.size == kRecordsAtOnce) run(format, scratch, work);
  }
  return {};
}

void Model::run(RecordFormat format, Scratch& scratch, Work& work) const {
  const std::size_t size = scratch.batch.size;
  if (size == 0) return;
  const inference::Predictor& predictor = format == RecordFormat::kJson ? *json_ : *text_;
  const auto rows = predictor.read_rows(scratch.batch, *parameters_, scratch.network);
  PADDLE_CHECK(rows);  // append() makes no wrong batch
  work.rows.add(*rows);
  // After an error, such as an id out of range, computes each record alone, to find the one that
  // caused it.
  const Status together = predictor.compute(scratch.batch, 0, size, scratch.network);
  for (std::size_t i = 0; i < size; ++i) {
    const auto [request, place] = scratch.origins[i];
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
      outcome = at(place, outcome.error());
    }
    if (outcome) continue;
    scratch.lines.resize(scratch.lines.size() - std::exchange(answer.bytes, 0));
    answer.outcome = std::move(outcome);
    answer.is_refused = true;
  }
  scratch.origins.clear();
  scratch.row_bytes = 0;
  data::clear(slots_, scratch.batch);
}

Result<std::size_t> Model::find_parameter(const std::string& name) const {
  std::vector<std::string> names;
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (!is_table(specs_[i])) continue;
    if (specs_[i].name() == name) return i;
    // Without a name, only sparse tables are candidates, not dense matrices.
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
  scratch.is_large = scratch.is_large || request.size() > kLargeBytes / 4;
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
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const wire::ParameterSpec& spec = specs_[i];
    std::vector<std::uint64_t> shape(spec.dims().begin(), spec.dims().end());
    if (spec.sparse()) shape.front() = parameters_->rows(i);
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
