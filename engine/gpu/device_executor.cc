#include "engine/gpu/device_executor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/gpu/device.h"
#include "engine/gpu/device_ops.h"

namespace paddle::nn {
namespace {

constexpr std::size_t kGraphsMax = 64;

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

Status DeviceExecutor::order(const Run& run) {
  run_ends_by_ = SteadyClock().now() + deadline_;
  PADDLE_TRY_STATUS(frame_.begin(run, run_ends_by_));
  PADDLE_TRY_STATUS(replay(run));
  frame_.inputs().release();
  frame_.download(stream_.handle());
  device_.record(stream_.handle(), done_.handle());
  return {};
}

Result<double> DeviceExecutor::finish(std::span<const std::span<float>> gradients) {
  PADDLE_TRY_STATUS(device::as_own(device_.wait(done_.handle(), run_ends_by_)));
  read_gradients(gradients);
  double sum = 0;
  for (const double cost : results().costs_found()) sum += cost;
  return sum;
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

Result<std::vector<device::Graph>> DeviceExecutor::capture(const Run& run, const Cuts& cuts) {
  std::vector<device::Graph> graphs;
  DeviceOps ops(frame_, run, device_, stream_.handle());
  std::size_t from = 0;
  for (const auto& [end, events] : cuts) {
    device_.begin_capture(stream_.handle());
    if (graphs.empty())
      std::ranges::for_each(plan_.forward, [&](const Op& op) { ops.execute(op); });
    for (; from < end; ++from) ops.execute(plan_.backward[from]);
    PADDLE_TRY(const device::GraphHandle graph, device_.end_capture(stream_.handle()));
    graphs.emplace_back(device_, graph);
  }
  return graphs;
}

// Replaying a graph costs a card less than the same commands given one by one.
Status DeviceExecutor::replay(const Run& run) {
  if (generation_ != frame_.generation() || graphs_.size() == kGraphsMax) graphs_.clear();
  generation_ = frame_.generation();
  const Cuts cuts = cuts_of(run);
  Shape shape = shape_of(run, cuts);
  auto found = graphs_.find(shape);
  if (found == graphs_.end()) {
    PADDLE_TRY(std::vector<device::Graph> graphs, capture(run, cuts));
    found = graphs_.emplace(std::move(shape), std::move(graphs)).first;
  }
  auto graph = found->second.begin();
  for (const auto& [end, events] : cuts) {
    device_.replay(stream_.handle(), (graph++)->handle());
    for (const device::EventHandle event : events) device_.record(stream_.handle(), event);
  }
  return {};
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
