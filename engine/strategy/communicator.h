// What a trainer that does not wait for its pushes still owes the shards, passive: gradients in,
// merged windows out, answers in. Which windows exist, and what is in them, depends on the batches
// alone, never on time.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/client/parameter_client.h"
#include "engine/parameter/row_notes.h"

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
    std::uint32_t max_merge = 1;  // batches of a window
    std::uint32_t send_queue_size =
        1;  // windows that may be without an answer while training goes on
    wire::Merge merge = wire::MERGE_MEAN;
    std::vector<parameter::RowNotes> notes = {};  // of the tables, in the order of a batch's rows
  };
  explicit Communicator(Options options) : options_(options) {}

  // Joins the open window, and closes it when it has max_merge batches. Parameters and their order
  // are the same in every batch; ids differ.
  void on_gradient(const client::PushTotals& totals, std::span<const client::DenseParameter> dense,
                   std::span<const client::SparseRows> rows);
  void flush();  // closes the open window, if there is any

  // The oldest closed window that was not sent, now sent; nothing while another is.
  const Window* send();
  // The window that was sent is applied.
  void on_answer();

  std::uint64_t closed() const { return closed_; }      // windows so far
  std::uint64_t answered() const { return answered_; }  // of them
  // Training must wait until this window is answered, and goes on with its values: the newest that
  // the queue does not cover. 0: with none.
  std::uint64_t must_be_answered() const {
    return closed_ > options_.send_queue_size ? closed_ - options_.send_queue_size : 0;
  }
  bool is_full() const { return answered_ < must_be_answered(); }

 private:
  Options options_;
  Window open_;
  std::deque<Window> queue_;  // the first may be sent
  bool is_sent_ = false;
  std::uint64_t closed_ = 0;
  std::uint64_t answered_ = 0;
};

}  // namespace paddle::strategy
