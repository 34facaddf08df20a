#include "engine/nn/device/device_executor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/nn/device/device_ops.h"

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

// Nothing that runs may use the memory that goes.
DeviceExecutor::~DeviceExecutor() {
  device_.record(stream_.handle(), done_.handle());
  static_cast<void>(device_.wait(done_.handle(), SteadyClock().now() + deadline_));
}

// A peer that cannot be reached is another failure, after which a trainer may join its job again.
Result<double> DeviceExecutor::run(const Run& run, std::span<const std::span<float>> gradients) {
  PADDLE_CHECK(run.begin == 0 && run.end == run.batch.size);
  if (Status ended = finish(run); !ended) {
    Error error = std::move(ended).error();
    if (error.code == Errc::kUnreachable) error.code = Errc::kFailed;
    return error;
  }
  read_gradients(gradients);
  double sum = 0;
  for (const double cost : results().costs_found()) sum += cost;
  return sum;
}

Status DeviceExecutor::finish(const Run& run) {
  const TimePoint deadline = SteadyClock().now() + deadline_;
  PADDLE_TRY_STATUS(frame_.begin(run, deadline));
  PADDLE_TRY_STATUS(replay(run));
  frame_.inputs().release();
  frame_.download(stream_.handle());
  device_.record(stream_.handle(), done_.handle());
  return device_.wait(done_.handle(), deadline);
}

void DeviceExecutor::compute(const Run& run) {
  DeviceOps ops(frame_, run, device_, stream_.handle());
  for (const Op& op : plan_.forward) ops.execute(op);
  if (run.mode == Mode::kTest) return;
  for (const Op& op : plan_.backward) ops.execute(op);
}

DeviceExecutor::Shape DeviceExecutor::shape_of(const Run& run) const {
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
  return {run.rows(),
          frame_.inputs().turn(),
          run.mode,
          run.compute,
          std::bit_cast<std::uint32_t>(run.cost_scale),
          std::move(on_card),
          std::move(has)};
}

// Orders of a graph cost a card less than the same ones by themselves.
Status DeviceExecutor::replay(const Run& run) {
  if (generation_ != frame_.generation() || graphs_.size() == kGraphsMax) graphs_.clear();
  generation_ = frame_.generation();
  Shape shape = shape_of(run);
  auto found = graphs_.find(shape);
  if (found == graphs_.end()) {
    device_.begin_capture(stream_.handle());
    compute(run);
    PADDLE_TRY(const device::GraphHandle graph, device_.end_capture(stream_.handle()));
    found = graphs_.emplace(std::move(shape), device::Graph(device_, graph)).first;
  }
  device_.replay(stream_.handle(), found->second.handle());
  return {};
}

void DeviceExecutor::read_gradients(std::span<const std::span<float>> gradients) const {
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    if (gradients[p].empty()) continue;
    PADDLE_CHECK(plan_.parameter_gradients[p].has_value());
    std::memcpy(gradients[p].data(), results().gradient_found(p), gradients[p].size_bytes());
  }
}

// A slot of floats is on the host already.
std::span<const float> DeviceExecutor::output(std::size_t layer) const {
  const Buffer& buffer = plan_.buffers[plan_.outputs[layer]->buffer];
  if (buffer.kind == Buffer::Kind::kInput) return frame_.inputs().host(buffer.index).floats;
  return results().output_found(layer);
}

}  // namespace paddle::nn
