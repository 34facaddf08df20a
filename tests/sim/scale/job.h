// A whole job of hundreds of trainers and pservers in one process. All trainers take a step
// together; nothing is lost, and each port hears them in an order of its own.
#pragma once

#include "tests/sim/scale/port.h"

namespace paddle::sim {

class ScaledJob {
 public:
  explicit ScaledJob(const ScaleOptions& options);
  ScaleReport run();

 private:
  enum class Ports : std::uint8_t { kDense, kSparse, kAll };

  void on_ports(Ports kind, const std::function<void(std::size_t port)>& work);
  void ask(FrameType type, Ports kind, std::uint32_t begin, std::uint32_t end);
  // A step of which each request is answered.
  void step(std::string name, FrameType type, Ports kind);
  void train(std::uint32_t batch);
  // Trainers that have pushed wait for the others, and hear so after a second.
  void wait();
  StepCost take_cost(std::string name);
  void end_step(StepCost cost);
  void fail(std::string what);

  const ScaleOptions options_;
  const ScaledModel model_;
  std::uint64_t asked_ = 0;
  std::vector<ScaledPort> ports_;  // dense ones before sparse ones
  ScaleReport report_;
};

}  // namespace paddle::sim
