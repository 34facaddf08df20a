// The queue of a trainer that does not wait for its pushes, passive: gradients in, merged windows
// out, answers in. Windows and their content depend on the batches alone, never on time.
#pragma once

#include <deque>
#include <utility>

#include "engine/client/batch_parameters.h"
#include "engine/parameter/row_notes.h"
#include "proto/parameters.pb.h"

namespace paddle::strategy {

// The gradients of one or more batches as one push.
struct Window {
  std::uint64_t number = 0;  // from 1
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
  double cost = 0;
  std::vector<client::DenseParameter> dense;  // gradients, no values
  std::vector<client::SparseRows> rows;       // ids and gradients
};

class Communicator {
 public:
  struct Options {
    std::uint32_t max_merge = 1;        // batches of a window
    std::uint32_t send_queue_size = 1;  // windows in flight while training continues
    wire::Merge merge = wire::MERGE_MEAN;
    std::vector<parameter::RowNotes> notes = {};  // of the tables, in the order of a batch's rows
  };
  explicit Communicator(Options options) : options_(std::move(options)) {}

  // Merges a batch into the open window, and closes it when it has max_merge batches. Every batch
  // has the same parameters in the same order; ids differ.
  void on_gradient(const client::PushTotals& totals, std::span<const client::DenseParameter> dense,
                   std::span<const client::SparseRows> rows);
  void flush();  // closes the open window, if there is one

  // The oldest closed window, now in flight; null if there is none or one is in flight already.
  Window* send();
  // The window in flight is applied.
  void on_answer();

  std::uint64_t closed() const { return closed_; }      // windows so far
  std::uint64_t answered() const { return answered_; }  // of them
  // The newest window that the queue has no room for: training waits for its answer, and continues
  // with its values. 0: training need not wait.
  std::uint64_t must_be_answered() const {
    return closed_ > options_.send_queue_size ? closed_ - options_.send_queue_size : 0;
  }
  bool is_full() const { return answered_ < must_be_answered(); }

 private:
  Options options_;
  Window open_;
  std::deque<Window> queue_;
  bool is_sent_ = false;  // the first of the queue
  std::uint64_t closed_ = 0;
  std::uint64_t answered_ = 0;
};

}  // namespace paddle::strategy
