// The queue of a trainer that does not wait for its pushes. Passive: gets gradients and answers,
// returns merged windows. The windows and their content depend on the batches only, never on time.
#pragma once

#include <deque>
#include <utility>

#include "engine/client/batch_parameters.h"
#include "engine/table/row_notes.h"
#include "proto/parameters.pb.h"

namespace paddle::strategy {

// The gradients of one or more batches, pushed together.
struct Window {
  std::uint64_t number = 0;  // from 1
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
  double cost = 0;
  std::vector<client::DenseParameter> dense;  // with gradients, without values
  std::vector<client::SparseRows> rows;       // ids and gradients
};

class Communicator {
 public:
  struct Options {
    std::uint32_t max_merge = 1;        // batches of a window
    std::uint32_t send_queue_size = 1;  // windows in flight while training continues
    wire::Merge merge = wire::MERGE_MEAN;
    std::vector<parameter::RowNotes> notes = {};  // by table, in the order of a batch's rows
  };
  explicit Communicator(Options options) : options_(std::move(options)) {}

  // Merges a batch into the open window, and closes it when it has max_merge batches. Every batch
  // has the same parameters in the same order; ids differ.
  void on_gradient(const client::PushTotals& totals, std::span<const client::DenseParameter> dense,
                   std::span<const client::SparseRows> rows);
  void flush();  // closes the open window, if there is one

  // The oldest closed window, which is then in flight; null if there is none, or if one is in
  // flight already.
  Window* send();
  // Called when the window in flight has been applied.
  void on_answer();

  std::uint64_t closed() const { return closed_; }      // number of closed windows
  std::uint64_t answered() const { return answered_; }  // number of answered windows
  // The number of the newest window for which the queue has no room: training waits for its answer,
  // and continues with the values in it. 0: training need not wait.
  std::uint64_t must_be_answered() const {
    return closed_ > options_.send_queue_size ? closed_ - options_.send_queue_size : 0;
  }
  bool is_full() const { return answered_ < must_be_answered(); }

 private:
  Options options_;
  Window open_;
  std::deque<Window> queue_;
  bool is_sent_ = false;  // the first window of queue_ is in flight
  std::uint64_t closed_ = 0;
  std::uint64_t answered_ = 0;
};

}  // namespace paddle::strategy
