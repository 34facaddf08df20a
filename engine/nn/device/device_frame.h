// Memory of a card for runs of a plan: what a run reads, what it finds, and the frame that has
// both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/kernels/device/rows.h"
#include "engine/nn/device/arena.h"
#include "engine/nn/plan/plan.h"
#include "engine/nn/run.h"

namespace paddle::nn {

// An array of the host as bytes.
template <class T>
std::span<const std::byte> bytes_of(const T* values, std::size_t count) {
  return std::as_bytes(std::span(values, count));
}

// Memory of a card for what a run of a plan reads: the arrays of its inputs, where the rows of its
// tables occur in them, and its parameters. All goes up together for each run, and what is known of
// the next run may be there while one is computed.
class DeviceInputs {
 public:
  // The run is computed by the stream. Plan and device outlive it.
  static Result<DeviceInputs> make(const Plan& plan, device::Device& device,
                                   device::StreamHandle compute);

  // Makes the arrays of the next run's examples. kData: as BatchInput::fill.
  Status fill(const Run& run);
  // Puts them where they go up from. `table_rows` says for each sparse parameter how many rows to
  // have room for. True where memory moved.
  Result<bool> write(const Run& run, std::span<const std::size_t> table_rows, TimePoint deadline);
  // Sends them, and the run's parameters.
  void send(const Run& run);
  // The next run, which was sent, is the current one, of which all that follows is: work that the
  // stream is given from now on may read its arrays.
  void begin();
  // Work that the stream is given from now on starts when all that was sent is there.
  void await() const { uploads_.await(); }
  // All work of the run has been given to the stream.
  void release() { uploads_.release(); }
  // Index of the arena that the last run's arrays lie in; addresses differ from one to another.
  std::size_t turn() const { return uploads_.turn(); }

  const InputArrays& host(std::size_t input) const { return current().arrays[input]; }
  // Arrays of an input; null: it has none.
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
  // Of the rows of a table, named by its gradient, among the indices of an input.
  kernels::device::Occurrences occurrences(std::size_t input, const Region& gradient) const;
  const std::uint64_t* seed() const { return current().arena->card<std::uint64_t>(kHead); }

 private:
  // Occurrences that an op of the backward reads.
  struct List {
    std::size_t input = 0;
    Region gradient;        // of the table
    std::size_t first = 0;  // as EachIndex
    std::size_t step = 1;
    std::size_t columns = 1;  // as GroupedIndices, where the input has weights
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
    std::vector<float*> values_on_card;  // by parameter: Parameters::on_card()
  };
  const Made& current() const { return made_[current_]; }
  Made& next() { return made_[1 - current_]; }

  void put_places(Made& made, const Run& run) const;
  void lay_out(const Made& made, const Run& run, std::span<const std::size_t> table_rows);
  void write_inputs(const Made& made, const Run& run) const;
  void write_list(const Made& made, const List& list, const Run& run) const;
  // Puts the numbers of a table's rows on the card in the place of those among the run's.
  void renumber(const Made& made, const List& list, const Run& run) const;

  const Plan* plan_;
  std::vector<List> lists_;
  std::size_t lists_from_;       // sections: two for each list
  std::size_t parameters_from_;  // one for each parameter
  std::array<Made, 2> made_;
  std::size_t current_ = 0;
  Uploads uploads_;
};

// Results that somebody reads, beside costs and gradients.
struct WantedResults {
  std::vector<std::size_t> outputs;      // layers; a slot of the batch has no need to come down
  std::vector<std::size_t> predictions;  // indices in Plan::predictions
};

// Memory of a card for what a run of a plan finds, and how it comes down to the host: costs,
// predictions, gradients of parameters, and the outputs of some layers.
class DeviceResults {
 public:
  // Plan and device outlive it.
  DeviceResults(const Plan& plan, device::Device& device, WantedResults wanted);

  // Makes room for a run of at most `rows_max` rows, and of so many in each sparse table. True
  // where memory moved.
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

  // `output_of(layer)` is where the card has a layer's outputs.
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

  // Of the last download.
  std::span<const double> costs_found() const {
    return {arena_.host<double>(kCosts), plan_.costs.size()};
  }
  std::span<const std::uint32_t> predictions_found(std::size_t index) const {
    return {arena_.host<std::uint32_t>(kPredictions + index), rows_};
  }
  std::span<const float> output_found(std::size_t layer) const;
  // As many floats as the run's parameter has.
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
  std::vector<device::PinnedMemory<float>> outputs_;  // of wanted_.outputs
  std::size_t rows_ = 0;                              // of the last run
  std::vector<float*> gradients_on_card_;  // likewise, by parameter: Parameters::on_card()
};

// Memory of a card for runs of a plan: where the ops find what they read and write. It grows to the
// largest run, and then stays where it is.
class DeviceFrame {
 public:
  // Runs are computed by the stream. Plan and device outlive it.
  static Result<DeviceFrame> make(const Plan& plan, device::Device& device,
                                  device::StreamHandle compute, WantedResults wanted);

  // Makes what the next run reads ready, while one is computed; another run may be begun in its
  // place. Where the host's parameters have the values of that run (has_values), all is sent.
  // kData: as BatchInput::fill.
  Status stage(const Run& run, bool has_values, TimePoint deadline);
  // Gives all memory its size and sends what the run reads; the run before must have ended. kData:
  // likewise.
  Status begin(const Run& run, TimePoint deadline);
  // Rises with every begin() that moved memory, or made room for more rows of a table: no order
  // from before holds.
  std::uint64_t generation() const { return generation_; }

  // First value of a region.
  float* at(const Region& region) const;
  kernels::device::Rows write(const Region& region) const { return {at(region), region.stride}; }
  kernels::device::ConstRows read(const Region& region) const {
    return {at(region), region.stride};
  }
  // Floats of the gradient of a parameter, of which a sparse table's may be more than the run has.
  std::size_t gradient_floats(std::size_t buffer) const {
    const Buffer& gradient = plan_.buffers[buffer];
    const bool is_table = gradient.rows == Buffer::Rows::kTable;
    return (is_table ? table_rows_[gradient.index] : 1) * gradient.width;
  }
  // Rows of the gradient of a table, likewise.
  std::size_t table_rows_max(const Region& gradient) const;

  DeviceInputs& inputs() { return inputs_; }
  const DeviceInputs& inputs() const { return inputs_; }
  const DeviceResults& results() const { return results_; }
  void download(device::StreamHandle stream) const {
    results_.download(stream, [this](std::size_t layer) { return at(*plan_.outputs[layer]); });
  }

  // Scratch for one op: a cost for each row or candidate, sums of chunks of rows, counters of
  // warps, which are 0 between kernels, and the factors of a product in bfloat16.
  double* costs() const { return costs_.data(); }
  float* chunks() const { return chunks_.data(); }
  std::uint32_t* counters() const { return counters_.data(); }
  std::uint16_t* factor(std::size_t index) const { return factors_[index].data(); }

 private:
  DeviceFrame(const Plan& plan, device::Lane compute, DeviceInputs inputs, WantedResults wanted);
  // A run by what its inputs are made of; no two batches of a job have one seed.
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
  Status write(const Run& run, TimePoint deadline);
  Result<bool> reserve(const Run& run);

  const Plan& plan_;
  device::Lane compute_;
  DeviceInputs inputs_;
  DeviceResults results_;
  std::size_t rows_max_ = 0;
  std::vector<std::size_t> table_rows_;             // by parameter: most rows of a sparse table
  std::vector<device::CardMemory<float>> buffers_;  // those of outputs, their gradients, scratch
  device::CardMemory<double> costs_;
  device::CardMemory<float> chunks_;
  device::CardMemory<std::uint32_t> counters_;
  std::array<device::CardMemory<std::uint16_t>, 2> factors_;
  std::optional<Staged> staged_;
  bool have_inputs_moved_ = false;  // since the last begin()
  std::uint64_t generation_ = 0;
};

// Values of an array that must begin at whole 16 bytes for a card's bfloat16 units.
constexpr std::size_t padded(std::size_t values) {
  return (values + 7) / 8 * 8;
}

// Scratch that the ops of a plan need at most.
struct ScratchSizes {
  std::size_t costs = 0;
  std::size_t chunks = 0;
  std::size_t counters = 0;
  std::array<std::size_t, 2> factors = {};

  static ScratchSizes of(const Plan& plan, std::size_t rows, kernels::Compute compute);
};

}  // namespace paddle::nn
