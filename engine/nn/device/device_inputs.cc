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
      arrays_(plan.inputs.size()),
      uploads_(std::move(uploads)) {}

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
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    PADDLE_TRY_STATUS(plan_->inputs[i]->fill(run, arrays_[i]));
  }
  return {};
}

// A dense table has all its rows in one buffer.
std::size_t DeviceInputs::rows_of(const List& list, const Run& run) const {
  const Buffer& buffer = plan_->buffers[list.gradient.buffer];
  if (buffer.rows == Buffer::Rows::kOne) return buffer.width / list.gradient.stride;
  return run.parameters.sparse[buffer.index].ids.size();
}

void DeviceInputs::lay_out(const Run& run, std::span<const std::size_t> table_rows) {
  const std::size_t parameters = plan_->parameter_gradients.size();
  const std::size_t head = sizeof(std::uint64_t) + parameters * sizeof(std::uint32_t);
  arena_->use(kHead, head, head);
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const InputArrays& input = arrays_[i];
    use<float>(*arena_, section(i, kFloats), input.floats.size());
    use<std::uint32_t>(*arena_, section(i, kIndices), input.indices.size());
    use<std::uint32_t>(*arena_, section(i, kStarts), input.starts.size());
    use<std::uint32_t>(*arena_, section(i, kBags), has_bags(i) ? input.indices.size() : 0);
    use<float>(*arena_, section(i, kWeights), input.weights.size());
    use<float>(*arena_, section(i, kScales), input.scales.size());
  }
  const bool trains = run.mode == Mode::kTrain;
  for (const List& list : lists_) {
    use<std::uint32_t>(*arena_, section(list), trains ? rows_of(list, run) + 1 : 0);
    use<std::uint32_t>(*arena_, section(list) + 1,
                       trains ? arrays_[list.input].indices.size() / list.step : 0);
  }
  for (const Buffer& buffer : plan_->buffers) {
    if (buffer.kind != Buffer::Kind::kParameter) continue;
    const std::size_t room = buffer.rows == Buffer::Rows::kTable
                                 ? table_rows[buffer.index] * buffer.width
                                 : buffer.width;
    const bool is_on_card = values_on_card_[buffer.index] != nullptr;
    arena_->use(parameters_from_ + buffer.index,
                values_of(run, buffer.index).size() * sizeof(float),
                is_on_card ? 0 : room * sizeof(float));
  }
}

void DeviceInputs::write(const Run& run) const {
  *arena_->host<std::uint64_t>(kHead) = run.seed;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const InputArrays& input = arrays_[i];
    copy_into<float>(*arena_, section(i, kFloats), input.floats);
    copy_into<std::uint32_t>(*arena_, section(i, kIndices), input.indices);
    copy_into<std::uint32_t>(*arena_, section(i, kStarts), input.starts);
    copy_into<float>(*arena_, section(i, kWeights), input.weights);
    copy_into<float>(*arena_, section(i, kScales), input.scales);
    if (!has_bags(i)) continue;
    auto* const bags = arena_->host<std::uint32_t>(section(i, kBags));
    for (std::uint32_t bag = 0; bag + 1 < input.starts.size(); ++bag) {
      std::fill(bags + input.starts[bag], bags + input.starts[bag + 1], bag);
    }
  }
  for (const Buffer& buffer : plan_->buffers) {
    if (buffer.kind != Buffer::Kind::kParameter) continue;
    copy_into(*arena_, parameters_from_ + buffer.index, values_of(run, buffer.index));
  }
  for (const List& list : lists_) renumber(list, run);
  if (run.mode == Mode::kTest) return;
  for (const List& list : lists_) write(list, run);
}

void DeviceInputs::write(const List& list, const Run& run) const {
  const std::size_t rows = rows_of(list, run);
  auto* const table_rows = reinterpret_cast<std::uint32_t*>(arena_->host<std::uint64_t>(kHead) + 1);
  table_rows[plan_->buffers[list.gradient.buffer].index] = static_cast<std::uint32_t>(rows);
  const InputArrays& input = arrays_[list.input];
  const std::span<std::uint32_t> starts(arena_->host<std::uint32_t>(section(list)), rows + 1);
  auto* const order = arena_->host<std::uint32_t>(section(list) + 1);
  if (list.columns > 1 && !input.weights.empty()) {
    list_occurrences(input.indices, GroupedIndices{list.columns, list.group}, starts, order);
  } else {
    list_occurrences(input.indices, EachIndex{list.first, list.step}, starts, order);
  }
}

// Ops of the forward read rows by their index in the value, those of the backward add to the run's
// rows, in the order of `starts`.
void DeviceInputs::renumber(const List& list, const Run& run) const {
  const Buffer& table = plan_->buffers[list.gradient.buffer];
  const CardRows* const card = run.parameters.sparse[table.index].card;
  if (card == nullptr) return;
  const std::size_t count = arrays_[list.input].indices.size();
  auto* const indices = arena_->host<std::uint32_t>(section(list.input, kIndices));
  for (std::size_t i = list.first; i < count; i += list.step) {
    if (indices[i] != kernels::kNoRow) indices[i] = card->numbers[indices[i]];
  }
}

Result<bool> DeviceInputs::send(const Run& run, std::span<const std::size_t> table_rows,
                                TimePoint deadline) {
  PADDLE_TRY(arena_, uploads_.take(deadline));
  values_on_card_.resize(plan_->parameter_gradients.size());
  for (std::size_t p = 0; p < values_on_card_.size(); ++p) {
    values_on_card_[p] = run.parameters.on_card(p).value;
  }
  lay_out(run, table_rows);
  PADDLE_TRY(const bool moved, arena_->settle());
  write(run);
  uploads_.send();
  return moved;
}

DeviceInputs::Arrays DeviceInputs::arrays(std::size_t input) const {
  const InputArrays& host = arrays_[input];
  const auto floats_at = [&](Array array, const std::vector<float>& values) {
    return values.empty() ? nullptr : arena_->card<const float>(section(input, array));
  };
  return {.indices = arena_->card<const std::uint32_t>(section(input, kIndices)),
          .starts = arena_->card<const std::uint32_t>(section(input, kStarts)),
          .bags = arena_->card<const std::uint32_t>(section(input, kBags)),
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
          .starts = arena_->card<const std::uint32_t>(section(*list)),
          .order = arena_->card<const std::uint32_t>(section(*list) + 1)};
}

}  // namespace paddle::nn
