#include "engine/nn/device/device_inputs.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/nn/device/occurrences.h"

namespace paddle::nn {
namespace {

template <class T>
void copy_into(const Arena& arena, std::size_t section, std::span<const T> values) {
  if (!values.empty()) std::memcpy(arena.host<T>(section), values.data(), values.size_bytes());
}

// Sizes differ from batch to batch, so there is room for more than the first has.
template <class T>
void use(Arena& arena, std::size_t section, std::size_t count) {
  arena.use(section, count * sizeof(T), count == 0 ? 0 : std::bit_ceil(count) * sizeof(T));
}

std::span<const float> values_of(const Run& run, std::size_t parameter) {
  const std::span<const float> dense = run.parameters.dense[parameter];
  return dense.empty() ? run.parameters.sparse[parameter].values : dense;
}

}  // namespace

Result<DeviceInputs> DeviceInputs::make(const Plan& plan, device::Device& device,
                                        device::StreamHandle compute) {
  std::vector<List> lists = lists_of(plan);
  PADDLE_TRY(Uploads uploads, Uploads::make(device, sections_of(plan, lists.size()), compute));
  return DeviceInputs(plan, std::move(lists), std::move(uploads));
}

DeviceInputs::DeviceInputs(const Plan& plan, std::vector<List> lists, Uploads uploads)
    : plan_(&plan),
      lists_(std::move(lists)),
      lists_from_(section(plan.inputs.size(), kFloats)),
      parameters_from_(lists_from_ + 2 * lists_.size()),
      uploads_(std::move(uploads)) {
  for (Made& made : made_) made.arrays.resize(plan.inputs.size());
}

std::size_t DeviceInputs::sections_of(const Plan& plan, std::size_t lists) {
  return section(plan.inputs.size(), kFloats) + 2 * lists + plan.parameter_gradients.size();
}

std::vector<DeviceInputs::List> DeviceInputs::lists_of(const Plan& plan) {
  std::vector<List> lists;
  for (const Op& op : plan.backward) {
    if (const auto* gather = std::get_if<op::GatherBackward>(&op)) {
      lists.push_back({.input = gather->rows,
                       .gradient = gather->table_gradient,
                       .columns = gather->columns,
                       .group = gather->group});
    } else if (const auto* pool = std::get_if<op::PoolBackward>(&op)) {
      lists.push_back({.input = pool->bags, .gradient = pool->table_gradient, .has_bags = true});
    } else if (const auto* sampled = std::get_if<op::SampledCostBackward>(&op)) {
      const std::size_t step = sampled->bias_gradient ? 2 : 1;
      lists.push_back({.input = sampled->rows, .gradient = sampled->weight_gradient, .step = step});
      if (!sampled->bias_gradient) continue;
      lists.push_back(
          {.input = sampled->rows, .gradient = *sampled->bias_gradient, .first = 1, .step = step});
    }
  }
  return lists;
}

bool DeviceInputs::has_bags(std::size_t input) const {
  return std::ranges::any_of(
      lists_, [&](const List& list) { return list.input == input && list.has_bags; });
}

Status DeviceInputs::fill(const Run& run) {
  std::vector<InputArrays>& arrays = next().arrays;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    PADDLE_TRY_STATUS(plan_->inputs[i]->fill(run, arrays[i]));
  }
  return {};
}

// A dense table has all its rows in one buffer.
std::size_t DeviceInputs::rows_of(const List& list, const Run& run) const {
  const Buffer& buffer = plan_->buffers[list.gradient.buffer];
  if (buffer.rows == Buffer::Rows::kOne) return buffer.width / list.gradient.stride;
  return run.parameters.sparse[buffer.index].ids.size();
}

void DeviceInputs::lay_out(const Made& made, const Run& run,
                           std::span<const std::size_t> table_rows) {
  const std::size_t parameters = plan_->parameter_gradients.size();
  const std::size_t head = sizeof(std::uint64_t) + parameters * sizeof(std::uint32_t);
  made.arena->use(kHead, head, head);
  for (std::size_t i = 0; i < made.arrays.size(); ++i) {
    const InputArrays& input = made.arrays[i];
    use<float>(*made.arena, section(i, kFloats), input.floats.size());
    use<std::uint32_t>(*made.arena, section(i, kIndices), input.indices.size());
    use<std::uint32_t>(*made.arena, section(i, kStarts), input.starts.size());
    use<std::uint32_t>(*made.arena, section(i, kBags), has_bags(i) ? input.indices.size() : 0);
    use<float>(*made.arena, section(i, kWeights), input.weights.size());
    use<float>(*made.arena, section(i, kScales), input.scales.size());
  }
  const bool trains = run.mode == Mode::kTrain;
  for (const List& list : lists_) {
    use<std::uint32_t>(*made.arena, section(list), trains ? rows_of(list, run) + 1 : 0);
    use<std::uint32_t>(*made.arena, section(list) + 1,
                       trains ? made.arrays[list.input].indices.size() / list.step : 0);
  }
  for (const Buffer& buffer : plan_->buffers) {
    if (buffer.kind != Buffer::Kind::kParameter) continue;
    const std::size_t room = buffer.rows == Buffer::Rows::kTable
                                 ? table_rows[buffer.index] * buffer.width
                                 : buffer.width;
    const bool is_on_card = made.values_on_card[buffer.index] != nullptr;
    made.arena->use(parameters_from_ + buffer.index,
                    values_of(run, buffer.index).size() * sizeof(float),
                    is_on_card ? 0 : room * sizeof(float));
  }
}

void DeviceInputs::write_inputs(const Made& made, const Run& run) const {
  *made.arena->host<std::uint64_t>(kHead) = run.seed;
  for (std::size_t i = 0; i < made.arrays.size(); ++i) {
    const InputArrays& input = made.arrays[i];
    copy_into<float>(*made.arena, section(i, kFloats), input.floats);
    copy_into<std::uint32_t>(*made.arena, section(i, kIndices), input.indices);
    copy_into<std::uint32_t>(*made.arena, section(i, kStarts), input.starts);
    copy_into<float>(*made.arena, section(i, kWeights), input.weights);
    copy_into<float>(*made.arena, section(i, kScales), input.scales);
    if (!has_bags(i)) continue;
    auto* const bags = made.arena->host<std::uint32_t>(section(i, kBags));
    for (std::uint32_t bag = 0; bag + 1 < input.starts.size(); ++bag) {
      std::fill(bags + input.starts[bag], bags + input.starts[bag + 1], bag);
    }
  }
  if (run.mode == Mode::kTest) return;
  for (const List& list : lists_) write_list(made, list, run);
}

void DeviceInputs::write_list(const Made& made, const List& list, const Run& run) const {
  const std::size_t rows = rows_of(list, run);
  auto* const table_rows =
      reinterpret_cast<std::uint32_t*>(made.arena->host<std::uint64_t>(kHead) + 1);
  table_rows[plan_->buffers[list.gradient.buffer].index] = static_cast<std::uint32_t>(rows);
  const InputArrays& input = made.arrays[list.input];
  const std::span<std::uint32_t> starts(made.arena->host<std::uint32_t>(section(list)), rows + 1);
  auto* const order = made.arena->host<std::uint32_t>(section(list) + 1);
  if (list.columns > 1 && !input.weights.empty()) {
    list_occurrences(input.indices, GroupedIndices{list.columns, list.group}, starts, order);
  } else {
    list_occurrences(input.indices, EachIndex{list.first, list.step}, starts, order);
  }
}

// Ops of the forward read rows by their index in the value, those of the backward add to the run's
// rows, in the order of `starts`.
void DeviceInputs::renumber(const Made& made, const List& list, const Run& run) const {
  const Buffer& table = plan_->buffers[list.gradient.buffer];
  const CardRows* const card = run.parameters.sparse[table.index].card;
  if (card == nullptr) return;
  const std::size_t count = made.arrays[list.input].indices.size();
  auto* const indices = made.arena->host<std::uint32_t>(section(list.input, kIndices));
  for (std::size_t i = list.first; i < count; i += list.step) {
    if (indices[i] != kernels::kNoRow) indices[i] = card->numbers[indices[i]];
  }
}

void DeviceInputs::put_places(Made& made, const Run& run) const {
  made.values_on_card.resize(plan_->parameter_gradients.size());
  for (std::size_t p = 0; p < made.values_on_card.size(); ++p) {
    made.values_on_card[p] = run.parameters.on_card(p).value;
  }
}

Result<bool> DeviceInputs::write(const Run& run, std::span<const std::size_t> table_rows,
                                 TimePoint deadline) {
  Made& made = next();
  PADDLE_TRY(made.arena, uploads_.take(deadline));
  put_places(made, run);
  lay_out(made, run, table_rows);
  PADDLE_TRY(const bool moved, made.arena->settle());
  write_inputs(made, run);
  return moved;
}

void DeviceInputs::send(const Run& run) {
  Made& made = next();
  put_places(made, run);
  for (const List& list : lists_) renumber(made, list, run);
  for (const Buffer& buffer : plan_->buffers) {
    if (buffer.kind != Buffer::Kind::kParameter) continue;
    copy_into(*made.arena, parameters_from_ + buffer.index, values_of(run, buffer.index));
  }
  uploads_.send();
}

void DeviceInputs::begin() {
  uploads_.await();
  current_ = 1 - current_;
}

DeviceInputs::Arrays DeviceInputs::arrays(std::size_t input) const {
  const InputArrays& host = current().arrays[input];
  const auto floats_at = [&](Array array, const std::vector<float>& values) {
    return values.empty() ? nullptr : current().arena->card<const float>(section(input, array));
  };
  return {.indices = current().arena->card<const std::uint32_t>(section(input, kIndices)),
          .starts = current().arena->card<const std::uint32_t>(section(input, kStarts)),
          .bags = current().arena->card<const std::uint32_t>(section(input, kBags)),
          .weights = floats_at(kWeights, host.weights),
          .scales = floats_at(kScales, host.scales)};
}

kernels::device::Occurrences DeviceInputs::occurrences(std::size_t input,
                                                       const Region& gradient) const {
  const auto list = std::ranges::find_if(lists_, [&](const List& one) {
    return one.input == input && one.gradient.buffer == gradient.buffer;
  });
  PADDLE_CHECK(list != lists_.end());
  const std::size_t table = plan_->buffers[gradient.buffer].index;
  return {.rows = reinterpret_cast<const std::uint32_t*>(seed() + 1) + table,
          .starts = current().arena->card<const std::uint32_t>(section(*list)),
          .order = current().arena->card<const std::uint32_t>(section(*list) + 1)};
}

}  // namespace paddle::nn
