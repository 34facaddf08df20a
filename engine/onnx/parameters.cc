#include "engine/onnx/parameters.h"

#include <algorithm>
#include <limits>

#include "base/bytes.h"
#include "base/check.h"
#include "base/log.h"
#include "engine/export/formats.h"
#include "engine/table/entry_policy.h"

namespace paddle::onnx {
namespace {

using wire::onnx::TensorProto;

template <class T>
void append(std::string& to, std::span<const T> values) {
  to.append(as_text(bytes_of(values)));
}

// Ids are unsigned, and those from 2^63 on come first as int64: moves the part of `bytes` behind
// `below`, in units of `unit` bytes, to the front.
void rotate_to_signed(std::string& bytes, std::uint64_t below, std::uint64_t unit) {
  std::rotate(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(below * unit),
              bytes.end());
}

// The value of a row that a table lacks: the mean of initial values, or 0 where ids wait for their
// admission.
float absent_value(const wire::ParameterSpec& spec) {
  const bool takes_all = table::EntryPolicy(spec.table(), 0).takes_all();
  return takes_all ? spec.initial_mean() : 0.0F;
}

}  // namespace

Result<const UsedParameters::Used*> UsedParameters::use(const std::string& name) {
  const auto known = used_.find(name);
  if (known != used_.end()) return &known->second;
  PADDLE_TRY(const auto specs, exporting::choose_parameters(snapshot_, name));
  PADDLE_TRY(exporting::Source source, exporting::Source::open(snapshot_, specs.front(), scratch_));
  PADDLE_TRY_STATUS(source.seal());
  Table values;
  bytes_ += source.rows() * source.width() * sizeof(float);
  if (source.is_table()) {
    values.ids = graph_.take_name(name + exporting::kIds);
    values.rows = graph_.take_name(name + exporting::kValues);
    values.count = source.rows();
    bytes_ += (source.rows() + 1) * sizeof(std::int64_t) + source.width() * sizeof(float);
  } else {
    values.rows = graph_.take_name(name);
  }
  const auto spec = std::ranges::find(specs_, name, &wire::ParameterSpec::name);
  PADDLE_CHECK(spec != specs_.end());
  const float absent = source.is_table() ? absent_value(*spec) : 0;
  if (source.is_table() && table::draws_unseen(*spec)) {
    log_warning(
        "{}: ONNX cannot draw initial values: an id without a row reads as {}, and not as "
        "`paddle predict` reads it",
        name, absent);
  }
  return &used_.emplace(name, Used{std::move(source), std::move(values), absent}).first->second;
}

Result<Value> UsedParameters::dense(const std::string& name) {
  PADDLE_TRY(const Used* const used, use(name));
  return used->values.rows;
}

Result<Table> UsedParameters::table(const std::string& name) {
  PADDLE_TRY(const Used* const used, use(name));
  return used->values;
}

Status UsedParameters::add_dense(const Used& used, wire::onnx::GraphProto& to) {
  const std::uint64_t bytes = used.source.rows() * used.source.width() * sizeof(float);
  std::string& raw =
      Graph::add_tensor(to, used.values.rows, TensorProto::FLOAT, used.source.shape(), bytes);
  return used.source.for_rows([&raw](std::uint64_t, std::span<const float> values) -> Status {
    append(raw, values);
    return {};
  });
}

Status UsedParameters::add_table(const Used& used, wire::onnx::GraphProto& to) {
  const std::uint64_t rows = used.values.count;
  const std::uint64_t width = used.source.width();
  std::uint64_t below = 0;  // ids below 2^63
  std::string& ids = Graph::add_tensor(to, used.values.ids, TensorProto::INT64,
                                       std::vector{rows + 1}, (rows + 1) * sizeof(std::int64_t));
  PADDLE_TRY_STATUS(used.source.for_rows([&](std::uint64_t id, std::span<const float>) -> Status {
    append(ids, std::span<const std::uint64_t>(&id, 1));
    below += static_cast<std::int64_t>(id) >= 0 ? 1 : 0;
    return {};
  }));
  rotate_to_signed(ids, below, sizeof(std::int64_t));
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  append(ids, std::span<const std::int64_t>(&kLast, 1));

  const std::vector<std::uint64_t> shape{rows + 1, width};
  std::string& values = Graph::add_tensor(to, used.values.rows, TensorProto::FLOAT, shape,
                                          (rows + 1) * width * sizeof(float));
  PADDLE_TRY_STATUS(used.source.for_rows([&](std::uint64_t, std::span<const float> row) -> Status {
    append(values, row);
    return {};
  }));
  rotate_to_signed(values, below, width * sizeof(float));
  append(values, std::span<const float>(std::vector<float>(width, used.absent)));
  return {};
}

Status UsedParameters::add_to(wire::onnx::GraphProto& to) {
  for (const auto& [name, used] : used_) {
    PADDLE_TRY_STATUS(used.source.is_table() ? add_table(used, to) : add_dense(used, to));
  }
  return {};
}

}  // namespace paddle::onnx
