// Options of one job of many processes, and what it cost.
#pragma once

#include <string>
#include <vector>

#include "proto/parameters.pb.h"

namespace paddle::sim {

struct ScaleOptions {
  std::uint32_t trainers = 1;
  std::uint32_t pservers = 1;  // each with one port of each kind
  bool has_dense = true;
  bool has_sparse = true;
  wire::Strategy strategy = wire::STRATEGY_SYNC;
  // With rounds, the last trainer pushes its second batch a second late, and the second half of all
  // trainers their third.
  std::uint32_t batches = 3;
  std::uint64_t seed = 1;
  // Ports are handled by so many threads. What is measured is right with one alone.
  std::size_t threads = 1;
};

// The cost of one step of the job, over all trainers and ports.
struct StepCost {
  std::string name;
  std::uint64_t requests = 0;
  std::uint64_t answers = 0;        // and notices
  std::uint64_t request_bytes = 0;  // of whole frames
  std::uint64_t answer_bytes = 0;
  double port_seconds = 0;     // in Shard
  double trainer_seconds = 0;  // in ClientLane, for the answers

  StepCost& operator+=(const StepCost& other);
};

struct ScaleReport {
  std::string error;  // "" when every value, row and total is what the trainers pushed
  std::vector<StepCost> steps;
  // Bytes of the heap, over all ports.
  std::uint64_t places = 0;   // of trainers that have not joined
  std::uint64_t waiting = 0;  // of pushes that wait for the last trainer
  std::uint64_t lanes = 0;    // of trainers to ports
};

}  // namespace paddle::sim
