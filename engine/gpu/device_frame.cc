#include "engine/gpu/device_frame.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "engine/gpu/occurrences.h"
#include "engine/math/card_costs.h"
#include "engine/math/card_sums.h"

namespace paddle::nn {
namespace {

template <class T>
void copy_into(const Arena& arena, std::size_t section, std::span<const T> values) {
  if (!values.empty()) std::memcpy(arena.host<T>(section), values.data(), values.size_bytes());
}

// Makes room for more than `count` values, because sizes differ from batch to batch.
template <class T>
void use(Arena& arena, std::size_t section, std::size_t count) {
  arena.use(section, count * sizeof(T), count == 0 ? 0 : std::bit_ceil(count) * sizeof(T));
}

std::span<const float> values_of(const Run& run, std::size_t parameter) {
  const std::span<const float> dense = run.parameters.dense[parameter];
  return dense.empty() ? run.parameters.sparse[parameter].values : dense;
}

// Finds the largest scratch memory that any op needs. Called with each op.
struct ScratchMeter {
  std::size_t rows;
  ScratchSizes sizes = {};

  void operator()(const op::ActivateBackward& op) {
    if (op.bias_gradient) need_chunks(op.width);
  }
  void operator()(const op::LayerNormBackward& op) { need_chunks(op.width); }
  void operator()(const op::SampledCost& op) { need_costs(op.candidates); }
  void operator()(const op::SoftmaxCrossEntropy&) { need_costs(1); }
  void operator()(const op::BinaryCrossEntropy&) { need_costs(1); }
  void operator()(const op::SquaredError&) { need_costs(1); }
  template <class Other>
  void operator()(const Other&) {}

 private:
  // Room for `each` costs per row, and after them the sums of their chunks.
  void need_costs(std::size_t each) {
    const std::size_t costs = rows * each;
    const std::size_t chunks = kernels::device::cost_chunk_count(costs);
    sizes.costs = std::max(sizes.costs, costs + chunks);
    sizes.counters = std::max(sizes.counters, 1 + chunks);
  }
  void need_chunks(std::size_t width) {
    sizes.chunks = std::max(sizes.chunks, kernels::device::chunk_count(rows) * width);
    sizes.counters = std::max(sizes.counters, kernels::device::column_blocks(width));
  }
};

}  // namespace

// The inputs of a run.

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

// The buffer of a dense table has Rows::kOne: its width is that of all rows of the table together.
std::size_t DeviceInputs::rows_of(const List& list, const Run& run) const {
  const Buffer& buffer = plan_->buffers[list.gradient.buffer];
  if (buffer.rows == Buffer::Rows::kOne) return buffer.width / list.gradient.stride;
  return run.parameters.sparse[buffer.index].ids.size();
}

void DeviceInputs::size_sections(const Made& made, const Run& run,
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

void DeviceInputs::write_list(const Made& made, const List& list, const Run& run) {
  const std::size_t rows = rows_of(list, run);
  auto* const table_rows =
      reinterpret_cast<std::uint32_t*>(made.arena->host<std::uint64_t>(kHead) + 1);
  table_rows[plan_->buffers[list.gradient.buffer].index] = static_cast<std::uint32_t>(rows);
  const InputArrays& input = made.arrays[list.input];
  const std::span<std::uint32_t> starts(made.arena->host<std::uint32_t>(section(list)), rows + 1);
  auto* const order = made.arena->host<std::uint32_t>(section(list) + 1);
  if (list.columns > 1 && !input.weights.empty()) {
    list_occurrences(input.indices, GroupedIndices{list.columns, list.group}, starts, order,
                     occurrence_memory_, run.team);
  } else {
    list_occurrences(input.indices, EachIndex{list.first, list.step}, starts, order,
                     occurrence_memory_, run.team);
  }
}

// Changes `indices` only. Ops of the forward read the table on the card with them. Ops of the
// backward add to the gradients of the run's rows, in the order of `starts`.
void DeviceInputs::renumber(const Made& made, const List& list, const Run& run) const {
  const Buffer& table = plan_->buffers[list.gradient.buffer];
  const CardRows* const card = run.parameters.sparse[table.index].card;
  if (card == nullptr) return;
  const std::span indices(made.arena->host<std::uint32_t>(section(list.input, kIndices)),
                          made.arrays[list.input].indices.size());
  nn::renumber(indices, EachIndex{list.first, list.step}, card->numbers, run.team);
}

void DeviceInputs::put_places(Made& made, const Run& run) const {
  made.values_on_card.resize(plan_->parameter_gradients.size());
  for (std::size_t p = 0; p < made.values_on_card.size(); ++p) {
    made.values_on_card[p] = run.parameters.on_card(p).value;
  }
}

Result<bool> DeviceInputs::lay_out(const Run& run, std::span<const std::size_t> table_rows,
                                   TimePoint deadline) {
  Made& made = next();
  PADDLE_TRY(made.arena, uploads_.take(deadline));
  put_places(made, run);
  size_sections(made, run, table_rows);
  return made.arena->has_room();
}

void DeviceInputs::write(const Run& run) {
  const Made& made = next();
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
          .order = current().arena->card<const std::uint32_t>(section(*list) + 1),
          .most = current().arena->capacity(section(*list) + 1) / sizeof(std::uint32_t)};
}

// Both arenas have the same room.
ScratchSizes DeviceInputs::scratch_of_pieces() const {
  using kernels::device::Occurrences;
  ScratchSizes sizes;
  for (const List& list : lists_) {
    const std::size_t most =
        made_[1 - current_].arena->capacity(section(list) + 1) / sizeof(std::uint32_t);
    sizes.chunks = std::max(sizes.chunks, Occurrences::partial_count(most) * list.gradient.stride);
    sizes.counters = std::max(sizes.counters, Occurrences::piece_count(most));
  }
  return sizes;
}

// The results of a run.

DeviceResults::DeviceResults(const Plan& plan, device::Device& device, WantedResults wanted)
    : plan_(plan),
      device_(device),
      wanted_(std::move(wanted)),
      gradients_from_(kPredictions + plan.predictions.size()),
      arena_(device, gradients_from_ + plan.parameter_gradients.size()) {
  std::erase_if(wanted_.outputs, [&](std::size_t layer) {
    return plan.buffers[plan.outputs[layer]->buffer].kind == Buffer::Kind::kInput;
  });
  for (std::size_t i = 0; i < wanted_.outputs.size(); ++i) outputs_.emplace_back(device);
}

Result<bool> DeviceResults::reserve(const Run& run, std::size_t rows_max,
                                    std::span<const std::size_t> table_rows) {
  rows_ = run.rows();
  gradients_on_card_.resize(plan_.parameter_gradients.size());
  for (std::size_t p = 0; p < gradients_on_card_.size(); ++p) {
    gradients_on_card_[p] = run.parameters.on_card(p).gradient;
  }
  const std::size_t costs = plan_.costs.size() * sizeof(double);
  arena_.use(kCosts, costs, costs);
  for (std::size_t i = 0; i < plan_.predictions.size(); ++i) {
    const bool is_wanted = std::ranges::find(wanted_.predictions, i) != wanted_.predictions.end();
    arena_.use(kPredictions + i, is_wanted ? rows_ * sizeof(std::uint32_t) : 0,
               rows_max * sizeof(std::uint32_t));
  }
  for (const Buffer& buffer : plan_.buffers) {
    if (buffer.kind != Buffer::Kind::kParameterGradient) continue;
    std::size_t used = 1;
    std::size_t room = 1;
    if (buffer.rows == Buffer::Rows::kTable) {
      used = run.parameters.sparse[buffer.index].ids.size();
      room = table_rows[buffer.index];
    }
    if (gradients_on_card_[buffer.index] != nullptr) {
      arena_.use(gradients_from_ + buffer.index, 0, 0);
      continue;
    }
    const std::size_t row_bytes = buffer.width * sizeof(float);
    arena_.use(gradients_from_ + buffer.index, run.mode == Mode::kTrain ? used * row_bytes : 0,
               room * row_bytes);
  }
  PADDLE_TRY(const bool moved, arena_.settle());
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const std::size_t width = plan_.buffers[plan_.outputs[wanted_.outputs[i]]->buffer].width;
    PADDLE_TRY_STATUS(outputs_[i].reserve(rows_max * width));
  }
  return moved;
}

std::span<const float> DeviceResults::output_found(std::size_t layer) const {
  const auto found = std::ranges::find(wanted_.outputs, layer);
  PADDLE_CHECK(found != wanted_.outputs.end());
  const auto index = static_cast<std::size_t>(found - wanted_.outputs.begin());
  return {outputs_[index].data(), output_floats(layer)};
}

// The frame.

ScratchSizes ScratchSizes::of(const Plan& plan, std::size_t rows) {
  ScratchMeter meter{rows};
  for (const Op& op : plan.forward) std::visit(meter, op);
  for (const Op& op : plan.backward) std::visit(meter, op);
  return meter.sizes;
}

Result<DeviceFrame> DeviceFrame::make(const Plan& plan, device::Device& device,
                                      device::StreamHandle compute, WantedResults wanted) {
  PADDLE_TRY(DeviceInputs inputs, DeviceInputs::make(plan, device, compute));
  return DeviceFrame(plan, {&device, compute}, std::move(inputs), std::move(wanted));
}

DeviceFrame::DeviceFrame(const Plan& plan, device::ComputeStream compute, DeviceInputs inputs,
                         WantedResults wanted)
    : plan_(plan),
      compute_(compute),
      inputs_(std::move(inputs)),
      results_(plan, *compute.device, std::move(wanted)),
      table_rows_(plan.parameter_gradients.size()),
      costs_(*compute.device),
      chunks_(*compute.device),
      counters_(*compute.device),
      rounded_(plan) {
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) buffers_.emplace_back(*compute.device);
  for (std::size_t i = 0; i < rounded_.copies().size(); ++i) {
    factors_.emplace_back(*compute.device);
  }
}

Result<bool> DeviceFrame::lay_out(const Run& run, TimePoint deadline) {
  staged_.reset();
  PADDLE_TRY_STATUS(inputs_.fill(run));
  std::vector<std::size_t> rooms = table_rows_;
  for (std::size_t p = 0; p < rooms.size(); ++p) {
    rooms[p] = std::max(rooms[p], std::bit_ceil(run.parameters.sparse[p].ids.size()));
  }
  return inputs_.lay_out(run, rooms, deadline);
}

Status DeviceFrame::stage(const Run& run, bool has_values, TimePoint deadline) {
  PADDLE_TRY(const bool has_room, lay_out(run, deadline));
  if (!has_room) return {};
  inputs_.write(run);
  if (has_values) inputs_.send(run);
  staged_ = {run.seed, run.rows(), run.mode, has_values};
  return {};
}

Status DeviceFrame::begin(const Run& run, TimePoint deadline) {
  const bool is_sent = is_staged(run) && staged_->is_sent;
  if (!is_staged(run)) {
    PADDLE_TRY(const bool has_room, lay_out(run, deadline));
    if (!has_room) {
      has_moved_ = true;
      PADDLE_TRY_STATUS(inputs_.make_room(deadline));
    }
    inputs_.write(run);
  }
  staged_.reset();
  const Result<bool> moved = reserve(run);
  has_moved_ = has_moved_ || !moved || *moved;
  if (!moved) return moved.error();
  if (!is_sent) inputs_.send(run);
  inputs_.begin();
  if (std::exchange(has_moved_, false)) ++generation_;
  return {};
}

Result<bool> DeviceFrame::reserve(const Run& run) {
  rows_max_ = std::max(rows_max_, std::bit_ceil(run.rows()));
  bool moved = false;
  for (std::size_t p = 0; p < table_rows_.size(); ++p) {
    const SparseView& table = run.parameters.sparse[p];
    const std::size_t rows = std::max(table_rows_[p], std::bit_ceil(table.ids.size()));
    moved = moved || rows > table_rows_[p];
    table_rows_[p] = rows;
    PADDLE_CHECK(table.card == nullptr || table.card->rows_max >= rows);
  }
  PADDLE_TRY(const bool results_moved, results_.reserve(run, rows_max_, table_rows_));
  moved = moved || results_moved;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const Buffer& buffer = plan_.buffers[i];
    const bool is_own = buffer.kind == Buffer::Kind::kOutput ||
                        buffer.kind == Buffer::Kind::kOutputGradient ||
                        buffer.kind == Buffer::Kind::kScratch;
    if (!is_own) continue;
    PADDLE_CHECK(buffer.rows == Buffer::Rows::kRun);
    PADDLE_TRY(const bool own, buffers_[i].reserve(rows_max_ * buffer.width));
    moved = moved || own;
  }
  ScratchSizes sizes = ScratchSizes::of(plan_, rows_max_);
  const ScratchSizes of_pieces = inputs_.scratch_of_pieces();
  sizes.chunks = std::max(sizes.chunks, of_pieces.chunks);
  sizes.counters = std::max(sizes.counters, of_pieces.counters);
  const auto reserve_one = [&](auto& memory, std::size_t size) -> Status {
    PADDLE_TRY(const bool own, memory.reserve(size));
    moved = moved || own;
    return {};
  };
  PADDLE_TRY_STATUS(reserve_one(costs_, sizes.costs));
  PADDLE_TRY_STATUS(reserve_one(chunks_, sizes.chunks));
  PADDLE_TRY(const bool has_new_counters, counters_.reserve(sizes.counters));
  if (has_new_counters) {
    moved = true;
    compute_.device->launch(
        compute_.stream, kernels::device::Fill{.size = counters_.capacity(),
                                               .value = 0,
                                               .to = reinterpret_cast<float*>(counters_.data())});
  }
  for (std::size_t i = 0; i < factors_.size() && run.compute == kernels::Compute::kBfloat16; ++i) {
    PADDLE_TRY_STATUS(reserve_one(factors_[i], rounded_.copies()[i].size(rows_max_)));
  }
  return moved;
}

float* DeviceFrame::at(const Region& region) const {
  const Buffer& buffer = plan_.buffers[region.buffer];
  float* values = nullptr;
  switch (buffer.kind) {
    case Buffer::Kind::kInput:
      values = inputs_.floats(buffer.index);
      break;
    case Buffer::Kind::kParameter:
      values = inputs_.parameter(buffer.index);
      break;
    case Buffer::Kind::kParameterGradient:
      values = results_.gradient(buffer.index);
      break;
    case Buffer::Kind::kOutput:
    case Buffer::Kind::kOutputGradient:
    case Buffer::Kind::kScratch:
      values = buffers_[region.buffer].data();
      break;
  }
  return values + region.column;
}

std::size_t DeviceFrame::table_rows_max(const Region& gradient) const {
  const Buffer& buffer = plan_.buffers[gradient.buffer];
  return buffer.rows == Buffer::Rows::kTable ? table_rows_[buffer.index]
                                             : buffer.width / gradient.stride;
}

}  // namespace paddle::nn
