#include "engine/gpu/device_executor.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "engine/gpu/device.h"

namespace paddle::nn {
namespace {

// Both turns of a full batch, a last batch and tests are a few. Data with batches of many sizes
// would otherwise fill the card's memory with graphs.
constexpr std::size_t kShapesMax = 64;

}  // namespace

Result<std::unique_ptr<DeviceExecutor>> DeviceExecutor::make(const Plan& plan,
                                                             device::Device& device,
                                                             WantedResults wanted,
                                                             Duration deadline) {
  PADDLE_TRY_STATUS(check_for_device(plan));
  PADDLE_TRY(device::Stream stream, device::Stream::open(device));
  PADDLE_TRY(device::Event done, device::Event::make(device));
  PADDLE_TRY(DeviceFrame frame,
             DeviceFrame::make(plan, device, stream.handle(), std::move(wanted)));
  return std::unique_ptr<DeviceExecutor>(new DeviceExecutor(
      plan, device, deadline, std::move(stream), std::move(done), std::move(frame)));
}

// Waits for the card, because running commands use the memory that is freed.
DeviceExecutor::~DeviceExecutor() {
  frame_.inputs().await();
  device::drain(device_, stream_.handle(), done_.handle());
}

Status DeviceExecutor::stage(const Run& run, bool has_values) {
  return device::as_own(frame_.stage(run, has_values, SteadyClock().now() + deadline_));
}

Status DeviceExecutor::begin(const Run& run) {
  PADDLE_CHECK(run.begin == 0 && run.end == run.batch.size);
  return device::as_own(order(run));
}

Result<double> DeviceExecutor::finish(std::span<const std::span<float>> gradients) {
  PADDLE_TRY_STATUS(device::as_own(device_.wait(done_.handle(), run_ends_by_)));
  read_gradients(gradients);
  double sum = 0;
  for (const double cost : results().costs_found()) sum += cost;
  return sum;
}

Status DeviceExecutor::order(const Run& run) {
  run_ends_by_ = SteadyClock().now() + deadline_;
  PADDLE_TRY_STATUS(frame_.begin(run, run_ends_by_));
  PADDLE_TRY_STATUS(compute(run));
  frame_.inputs().release();
  frame_.download(stream_.handle());
  device_.record(stream_.handle(), done_.handle());
  return {};
}

// Replaying a graph costs a card less than the same commands given one by one.
Status DeviceExecutor::compute(const Run& run) {
  if (generation_ != frame_.generation()) shapes_.clear();
  generation_ = frame_.generation();
  const Cuts cuts = cuts_of(run);
  Known& known = this->known(shape_of(run, cuts));
  const bool is_first = std::exchange(known.last_run, ++runs_) == 0;
  const bool replays = !is_first && device_.captures();
  if (replays && known.graphs.empty()) {
    PADDLE_TRY(known.graphs, capture(run, cuts));
  }
  DeviceOps ops(frame_, run, device_, stream_.handle());
  std::size_t from = 0;
  auto graph = known.graphs.begin();
  for (const auto& [end, events] : cuts) {
    if (replays) {
      device_.replay(stream_.handle(), (graph++)->handle());
    } else {
      give(ops, std::exchange(from, end), end);
    }
    for (const device::EventHandle event : events) device_.record(stream_.handle(), event);
  }
  return {};
}

// The entry of a shape. A new shape beyond kShapesMax replaces the one that ran longest ago.
DeviceExecutor::Known& DeviceExecutor::known(Shape shape) {
  if (const auto found = shapes_.find(shape); found != shapes_.end()) return found->second;
  if (shapes_.size() == kShapesMax) {
    shapes_.erase(std::ranges::min_element(
        shapes_, {}, [](const auto& entry) { return entry.second.last_run; }));
  }
  return shapes_[std::move(shape)];
}

DeviceExecutor::Cuts DeviceExecutor::cuts_of(const Run& run) const {
  if (run.mode == Mode::kTest) return {{0, {}}};
  std::map<void*, std::size_t> last;
  for (std::size_t p = 0; p < gradient_ends_.size(); ++p) {
    void* const written = run.parameters.on_card(p).written;
    if (written == nullptr) continue;
    std::size_t& end = last[written];
    end = std::max(end, gradient_ends_[p]);
  }
  Cuts cuts{{plan_.backward.size(), {}}};
  for (const auto& [event, end] : last) cuts[end].push_back({event});
  return cuts;
}

DeviceExecutor::Shape DeviceExecutor::shape_of(const Run& run, const Cuts& cuts) const {
  std::vector<const float*> on_card;
  for (std::size_t p = 0; p < plan_.parameter_gradients.size(); ++p) {
    const CardPlace place = run.parameters.on_card(p);
    on_card.push_back(place.value);
    on_card.push_back(place.gradient);
  }
  std::vector<bool> has;
  for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
    const InputArrays& arrays = frame_.inputs().host(i);
    has.push_back(!arrays.weights.empty());
    has.push_back(!arrays.scales.empty());
  }
  std::vector<std::size_t> ends;
  for (const auto& [end, events] : cuts) ends.push_back(end);
  return {run.rows(),
          frame_.inputs().turn(),
          run.mode,
          run.compute,
          std::bit_cast<std::uint32_t>(run.cost_scale),
          std::move(on_card),
          std::move(has),
          std::move(ends)};
}

void DeviceExecutor::give(DeviceOps& ops, std::size_t from, std::size_t end) const {
  if (from == 0) std::ranges::for_each(plan_.forward, [&](const Op& op) { ops.execute(op); });
  for (; from < end; ++from) ops.execute(plan_.backward[from]);
}

Result<std::vector<device::Graph>> DeviceExecutor::capture(const Run& run, const Cuts& cuts) {
  std::vector<device::Graph> graphs;
  DeviceOps ops(frame_, run, device_, stream_.handle());
  std::size_t from = 0;
  for (const auto& [end, events] : cuts) {
    device_.begin_capture(stream_.handle());
    give(ops, std::exchange(from, end), end);
    PADDLE_TRY(const device::GraphHandle graph, device_.end_capture(stream_.handle()));
    graphs.emplace_back(device_, graph);
  }
  return graphs;
}

void DeviceExecutor::read_gradients(std::span<const std::span<float>> gradients) const {
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    if (gradients[p].empty()) continue;
    PADDLE_CHECK(plan_.parameter_gradients[p].has_value());
    std::memcpy(gradients[p].data(), results().gradient_found(p), gradients[p].size_bytes());
  }
}

// The outputs of a data layer are the floats of its slot, which the host still has.
std::span<const float> DeviceExecutor::output(std::size_t layer) const {
  const Buffer& buffer = plan_.buffers[plan_.outputs[layer]->buffer];
  if (buffer.kind == Buffer::Kind::kInput) return frame_.inputs().host(buffer.index).floats;
  return results().output_found(layer);
}

}  // namespace paddle::nn
