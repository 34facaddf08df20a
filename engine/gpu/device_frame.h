// Memory of a card for runs of a plan: the inputs of a run, its results, and the frame that
// contains both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/gpu/arena.h"
#include "engine/gpu/occurrences.h"
#include "engine/gpu/rounded_factors.h"
#include "engine/math/card_rows.h"
#include "engine/nn/plan.h"
#include "engine/nn/run.h"

namespace paddle::nn {

// An array of the host as bytes.
template <class T>
std::span<const std::byte> bytes_of(const T* values, std::size_t count) {
  return std::as_bytes(std::span(values, count));
}

// The largest scratch memory that any op of a plan needs, in values of each array.
struct ScratchSizes {
  std::size_t costs = 0;
  std::size_t chunks = 0;
  std::size_t counters = 0;

  static ScratchSizes of(const Plan& plan, std::size_t rows);
};

// Memory of a card for the inputs of a run: the arrays of the plan's inputs, lists of where the
// rows of tables occur in them, and the parameters. All of these are sent together for each run.
// The inputs of the next run may be sent while a run is computed.
class DeviceInputs {
 public:
  // `compute` is the stream that computes the runs. `plan` and `device` must outlive the result.
  static Result<DeviceInputs> make(const Plan& plan, device::Device& device,
                                   device::StreamHandle compute);

  // Fills the host's arrays with the next run's examples. kData: as BatchInput::fill.
  Status fill(const Run& run);
  // Lays these arrays out in the pinned memory that is sent. `table_rows`: how many rows are to
  // have room in each sparse table, by parameter. False: the memory has no room for them yet.
  Result<bool> lay_out(const Run& run, std::span<const std::size_t> table_rows, TimePoint deadline);
  // Makes that room; memory moves. REQUIRES: no run is computed.
  Status make_room(TimePoint deadline) { return uploads_.settle(deadline); }
  // Writes the arrays where they were laid out.
  void write(const Run& run);
  // Sends the arrays and the run's parameters to the card.
  void send(const Run& run);
  // Makes the run that was sent the current one, which the functions below are about. Later
  // commands of the compute stream may read its arrays.
  void begin();
  // Makes later commands of the compute stream wait until all that was sent is on the card.
  void await() const { uploads_.await(); }
  // REQUIRES: all commands of the run have been given to the compute stream.
  void release() { uploads_.release(); }
  // Index of the arena with the last run's arrays. Arenas have different addresses.
  std::size_t turn() const { return uploads_.turn(); }

  const InputArrays& host(std::size_t input) const { return current().arrays[input]; }
  // Arrays of an input on the card. `weights` and `scales` are null if the input has none.
  struct Arrays {
    const std::uint32_t* indices = nullptr;
    const std::uint32_t* starts = nullptr;
    const std::uint32_t* bags = nullptr;  // the bag of each index
    const float* weights = nullptr;
    const float* scales = nullptr;
  };
  Arrays arrays(std::size_t input) const;
  float* floats(std::size_t input) const {
    return current().arena->card<float>(section(input, kFloats));
  }
  float* parameter(std::size_t parameter) const {
    float* const on_card = current().values_on_card[parameter];
    return on_card != nullptr ? on_card
                              : current().arena->card<float>(parameters_from_ + parameter);
  }
  // Occurrences of the rows of a table among the indices of an input. `gradient` identifies the
  // table.
  kernels::device::Occurrences occurrences(std::size_t input, const Region& gradient) const;
  // Scratch memory that the sums of rows need which occur often.
  ScratchSizes scratch_of_pieces() const;
  const std::uint64_t* seed() const { return current().arena->card<std::uint64_t>(kHead); }

 private:
  // Occurrences that an op of the backward reads.
  struct List {
    std::size_t input = 0;
    Region gradient;        // gradient of the table
    std::size_t first = 0;  // see EachIndex
    std::size_t step = 1;
    std::size_t columns = 1;  // see GroupedIndices; used if the input has weights
    std::size_t group = 1;
    bool has_bags = false;
  };
  enum Array : std::size_t { kFloats, kIndices, kStarts, kBags, kWeights, kScales, kArrays };
  static constexpr std::size_t kHead = 0;  // the seed, then the rows of each table

  DeviceInputs(const Plan& plan, std::vector<List> lists, Uploads uploads);
  static std::vector<List> lists_of(const Plan& plan);
  static std::size_t sections_of(const Plan& plan, std::size_t lists);
  static std::size_t section(std::size_t input, Array array) { return 1 + input * kArrays + array; }
  std::size_t section(const List& list) const {
    return lists_from_ + 2 * static_cast<std::size_t>(&list - lists_.data());
  }
  bool has_bags(std::size_t input) const;
  std::size_t rows_of(const List& list, const Run& run) const;

  // Inputs of one run.
  struct Made {
    std::vector<InputArrays> arrays;
    Arena* arena = nullptr;
    std::vector<float*> values_on_card;  // by parameter: Parameters::on_card().value
  };
  const Made& current() const { return made_[current_]; }
  Made& next() { return made_[1 - current_]; }

  void put_places(Made& made, const Run& run) const;
  void size_sections(const Made& made, const Run& run, std::span<const std::size_t> table_rows);
  void write_list(const Made& made, const List& list, const Run& run);
  // If the table is on the card, replaces indices into the run's rows by the rows' numbers there.
  void renumber(const Made& made, const List& list, const Run& run) const;

  const Plan* plan_;
  std::vector<List> lists_;
  std::size_t lists_from_;       // first section of the lists, which have two each
  std::size_t parameters_from_;  // first section of the parameters, which have one each
  OccurrenceMemory occurrence_memory_;
  std::array<Made, 2> made_;
  std::size_t current_ = 0;
  Uploads uploads_;
};

// Results that the caller reads besides costs and gradients.
struct WantedResults {
  std::vector<std::size_t> outputs;      // layers; float slots are left out: the host has them
  std::vector<std::size_t> predictions;  // indexes in Plan::predictions
};

// Memory of a card for the results of a run (costs, predictions, gradients of parameters, and the
// outputs of some layers), and the pinned memory of the host that they are downloaded to.
class DeviceResults {
 public:
  // `plan` and `device` must outlive the object.
  DeviceResults(const Plan& plan, device::Device& device, WantedResults wanted);

  // Makes room for runs of at most `rows_max` rows, with at most table_rows[p] rows of each sparse
  // table p. True if memory moved.
  Result<bool> reserve(const Run& run, std::size_t rows_max,
                       std::span<const std::size_t> table_rows);

  double* cost(std::size_t index) const { return arena_.card<double>(kCosts) + index; }
  std::uint32_t* predictions(std::size_t index) const {
    return arena_.card<std::uint32_t>(kPredictions + index);
  }
  float* gradient(std::size_t parameter) const {
    if (gradients_on_card_[parameter] != nullptr) return gradients_on_card_[parameter];
    return arena_.card<float>(gradients_from_ + parameter);
  }

  // Copies the results to the host. output_of(layer) returns the address on the card of a layer's
  // outputs.
  template <class OutputOf>
  void download(device::StreamHandle stream, OutputOf output_of) const {
    arena_.download(stream);
    for (std::size_t i = 0; i < wanted_.outputs.size(); ++i) {
      const std::size_t layer = wanted_.outputs[i];
      device_.download(stream, reinterpret_cast<const std::byte*>(output_of(layer)),
                       reinterpret_cast<std::byte*>(outputs_[i].data()),
                       output_floats(layer) * sizeof(float));
    }
  }

  // The functions below return results of the last download.
  std::span<const double> costs_found() const {
    return {arena_.host<double>(kCosts), plan_.costs.size()};
  }
  std::span<const std::uint32_t> predictions_found(std::size_t index) const {
    return {arena_.host<std::uint32_t>(kPredictions + index), rows_};
  }
  std::span<const float> output_found(std::size_t layer) const;
  // Points to as many floats as the parameter has in the run.
  const float* gradient_found(std::size_t parameter) const {
    return arena_.host<float>(gradients_from_ + parameter);
  }

 private:
  static constexpr std::size_t kCosts = 0;
  static constexpr std::size_t kPredictions = 1;
  std::size_t output_floats(std::size_t layer) const {
    return rows_ * plan_.buffers[plan_.outputs[layer]->buffer].width;
  }

  const Plan& plan_;
  device::Device& device_;
  WantedResults wanted_;
  std::size_t gradients_from_;  // section of the arena
  Arena arena_;
  std::vector<device::PinnedMemory<float>> outputs_;  // one for each of wanted_.outputs
  std::size_t rows_ = 0;                              // rows of the last run
  std::vector<float*> gradients_on_card_;             // in the last run, by parameter
};

// Memory of a card for runs of a plan: all buffers that ops read and write. It grows to the size of
// the largest run; its addresses stay the same from then on.
class DeviceFrame {
 public:
  // `compute` is the stream that computes the runs. `plan` and `device` must outlive the frame.
  static Result<DeviceFrame> make(const Plan& plan, device::Device& device,
                                  device::StreamHandle compute, WantedResults wanted);

  // Prepares the inputs of the next run while a run is computed. With `has_values`, the host's
  // parameters already have the values for the next run, and all is sent to the card. The next
  // begin() may be of another run. Does nothing if there is no room, which begin() makes: a card
  // may let an allocation wait for all its work, and so for other cards. kData: as
  // BatchInput::fill.
  Status stage(const Run& run, bool has_values, TimePoint deadline);
  // Makes room for the run and sends its inputs if stage() has not sent them. REQUIRES: the run
  // before has ended. kData: as BatchInput::fill.
  Status begin(const Run& run, TimePoint deadline);
  // Grows with every begin() that moved memory or made room for more rows of a table. Graphs that
  // were captured at another generation must not be replayed.
  std::uint64_t generation() const { return generation_; }

  // First value of a region.
  float* at(const Region& region) const;
  kernels::device::Rows write(const Region& region) const { return {at(region), region.stride}; }
  kernels::device::ConstRows read(const Region& region) const {
    return {at(region), region.stride};
  }
  // Number of floats in the gradient of a parameter. For a sparse table it is the number that there
  // is room for, which may be more than the run needs.
  std::size_t gradient_floats(std::size_t buffer) const {
    const Buffer& gradient = plan_.buffers[buffer];
    const bool is_table = gradient.rows == Buffer::Rows::kTable;
    return (is_table ? table_rows_[gradient.index] : 1) * gradient.width;
  }
  // Number of rows in the gradient of a table; for a sparse table, those that there is room for.
  std::size_t table_rows_max(const Region& gradient) const;

  const Plan& plan() const { return plan_; }
  DeviceInputs& inputs() { return inputs_; }
  const DeviceInputs& inputs() const { return inputs_; }
  const DeviceResults& results() const { return results_; }
  void download(device::StreamHandle stream) const {
    results_.download(stream, [this](std::size_t layer) { return at(*plan_.outputs[layer]); });
  }

  // Scratch memory for one op: a cost for each row or candidate, the sums of chunks of rows,
  // and counters of warps (0 whenever no kernel runs).
  double* costs() const { return costs_.data(); }
  float* chunks() const { return chunks_.data(); }
  std::uint32_t* counters() const { return counters_.data(); }
  // Copies of factors in bfloat16.
  const RoundedFactors& rounded() const { return rounded_; }
  std::uint16_t* factor(std::size_t copy) const { return factors_[copy].data(); }

 private:
  DeviceFrame(const Plan& plan, device::ComputeStream compute, DeviceInputs inputs,
              WantedResults wanted);
  // Identifies a run by all that its inputs depend on; no two batches of a job have the same seed.
  struct Staged {
    std::uint64_t seed;
    std::size_t rows;
    Mode mode;
    bool is_sent;
  };
  bool is_staged(const Run& run) const {
    return staged_ && staged_->seed == run.seed && staged_->rows == run.rows() &&
           staged_->mode == run.mode;
  }
  // Fills the inputs of the run, and lays them out. False: the card has no room for them yet.
  Result<bool> lay_out(const Run& run, TimePoint deadline);
  Result<bool> reserve(const Run& run);

  const Plan& plan_;
  device::ComputeStream compute_;
  DeviceInputs inputs_;
  DeviceResults results_;
  std::size_t rows_max_ = 0;
  std::vector<std::size_t> table_rows_;             // by parameter: room for rows of a sparse table
  std::vector<device::CardMemory<float>> buffers_;  // for outputs, their gradients, scratch
  device::CardMemory<double> costs_;
  device::CardMemory<float> chunks_;
  device::CardMemory<std::uint32_t> counters_;
  RoundedFactors rounded_;
  std::vector<device::CardMemory<std::uint16_t>> factors_;  // by copy
  std::optional<Staged> staged_;
  bool has_moved_ = false;  // memory, since the last begin() that succeeded
  std::uint64_t generation_ = 0;
};

}  // namespace paddle::nn
