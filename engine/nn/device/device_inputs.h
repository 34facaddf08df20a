// Memory of a card for what a run of a plan reads: the arrays of its inputs, where the rows of its
// tables occur in them, and its parameters. All goes up together for each run, and what is known of
// the next run may be there while one is computed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels/device/rows.h"
#include "engine/nn/device/uploads.h"
#include "engine/nn/plan/plan.h"
#include "engine/nn/run.h"

namespace paddle::nn {

// An array of the host as bytes.
template <class T>
std::span<const std::byte> bytes_of(const T* values, std::size_t count) {
  return std::as_bytes(std::span(values, count));
}

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

}  // namespace paddle::nn
