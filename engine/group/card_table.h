// A sparse table in the memory of a card. The host stores which id has which row; values and
// optimizer state of all rows are on the card, where a batch's rows are read and updated in place.
// The rows have the same bits as those of a table::SparseTable without policies.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/client/batch_parameters.h"
#include "engine/client/parameter_client.h"
#include "engine/gpu/handles.h"
#include "engine/math/initial.h"
#include "engine/math/optimizer.h"
#include "engine/snapshot/snapshot_source.h"
#include "engine/snapshot/writer.h"
#include "engine/table/row_index.h"

namespace paddle::strategy {

class CardTable {
 public:
  // kUsage, with the name of the policy: the table has a policy that only pservers support.
  static Status check(const wire::ParameterSet& set, const wire::ParameterSpec& spec);

  // REQUIRES: parameter `index` of the set is a table that passes check(). Set and device outlive
  // the table. A card that does not complete its work within `patience` hangs, and has failed.
  CardTable(const wire::ParameterSet& set, std::uint32_t index, device::ComputeStream compute,
            Duration patience = std::chrono::seconds(60));
  ~CardTable();
  CardTable(const CardTable&) = delete;
  CardTable& operator=(const CardTable&) = delete;
  // Must be called first. kResource: the card has no room for as many rows as `vocabulary` and
  // bytes_max allow, unless both are 0.
  Status start(std::uint64_t vocabulary);

  std::uint32_t parameter() const { return parameter_; }

  enum class Reads { kToTrain, kToTest };
  // Sets the places of a batch's rows: those of their values, or for a test those of the averages
  // that the optimizer keeps. Until the next call, an absent row has its initial value there, or
  // for a test the value of table::SparseTable::read_to_test(); update() makes it a row of the
  // table. kResource: the card has no room for more rows.
  Status find(client::SparseRows& rows, Reads reads);
  // As find() to train, for the next batch, while the card may still compute a batch whose update()
  // has been called. False, and nothing is found: there is no room yet for the rows, which find()
  // makes. REQUIRES: no test comes before the next batch.
  Result<bool> find_ahead(client::SparseRows& rows);
  // Updates the rows that find() found last by the gradients in their places, after all earlier
  // work of the card's stream. kFailed: an earlier update failed, as in finish().
  Status update(const client::SparseRows& rows, float learning_rate);
  // Waits for all updates. kFailed: a value or its optimizer's state is not finite.
  Status finish();

  client::TableTotals totals() const;
  Status save(snapshot::SnapshotWriter& writer);
  // Replaces all rows by those of a snapshot, which `source` converts.
  Status load(const snapshot::SnapshotReader& reader, const snapshot::SnapshotSource& source);

 private:
  // Memory of the rows: planes as in table::DenseTable, each of `capacity` rows.
  struct Rows {
    explicit Rows(device::Device& device) : planes(device), updates(device) {}
    device::CardMemory<float> planes;
    device::CardMemory<std::uint32_t> updates;  // for each row, if the optimizer counts them
    std::size_t capacity = 0;
  };
  // Memory for a batch.
  struct Batch {
    explicit Batch(device::Device& device)
        : numbers(device), on_card(device), steps(device), gradients(device) {}
    device::PinnedMemory<std::uint32_t> numbers;
    device::CardMemory<std::uint32_t> on_card;  // the numbers
    device::CardMemory<kernels::device::RowStep> steps;
    device::CardMemory<float> gradients;
    std::size_t rows_max = 0;
  };
  std::size_t rows() const { return ids_.size(); }
  std::size_t bytes_per_row() const;
  float* plane(std::size_t number) const {
    return rows_.planes.data() + number * rows_.capacity * width_;
  }
  // The row numbers of the ids; RowIndex::kNone for ids without a row.
  void look_up(std::span<const std::uint64_t> ids, std::vector<std::uint32_t>& numbers) const;
  // Numbers the rows of a batch, and sets absent_.
  void number(client::SparseRows& rows);
  Status append(std::span<const std::uint64_t> ids);
  Status reserve(std::size_t count);
  Status move_to(std::size_t capacity);
  Status reserve_batch(std::size_t rows);
  // Sets the places of the rows, and writes the values of the absent ones. REQUIRES: there is room.
  Status place(client::SparseRows& rows, Reads reads);
  std::size_t rows_of_run() const;
  // Copies rows of a snapshot to the card, where each plane stores them as one run; empties `run`.
  Status put(const table::RowForm& form, Bytes& run);
  // Copies from or to pinned memory of the host, which may be reused after wait() has returned.
  template <class T>
  void upload(const T* from, T* to, std::size_t count) {
    device_.upload(compute_.stream, reinterpret_cast<const std::byte*>(from),
                   reinterpret_cast<std::byte*>(to), count * sizeof(T));
  }
  template <class T>
  void download(const T* from, T* to, std::size_t count) {
    device_.download(compute_.stream, reinterpret_cast<const std::byte*>(from),
                     reinterpret_cast<std::byte*>(to), count * sizeof(T));
  }
  Status wait();
  Status await(const device::Event& event);

  const wire::ParameterSpec& spec_;
  const std::uint32_t parameter_;
  const device::ComputeStream compute_;
  device::Device& device_;
  const Duration patience_;
  const optim::UpdateRule rule_;
  const std::size_t width_;
  const std::size_t state_width_;
  const bool counts_;  // whether the optimizer counts updates of each row
  const std::size_t rows_max_;
  const optim::InitialRows initial_;
  const optim::InitialRows unseen_;  // tests read these for absent rows

  table::RowIndex index_;
  std::vector<std::uint64_t> ids_;     // by number
  std::vector<std::uint64_t> absent_;  // found last without a row; numbered after the rows
  Rows rows_;
  Batch batch_;
  device::PinnedMemory<float> room_;  // for what is copied to the host or from it
  device::PinnedMemory<std::uint32_t> update_room_;
  device::CardMemory<std::uint32_t> not_finite_;  // one flag, never cleared
  device::PinnedMemory<std::uint32_t> found_;     // copy of that flag, after an update
  std::optional<device::Event> sent_;             // recorded when the copy from room_ ends
  std::optional<device::Event> done_;
  bool is_under_way_ = false;
};

// All sparse tables of a job whose only trainer stores them in the memory of its card.
class CardTables {
 public:
  // kUsage, with the reason and a way out: a table cannot be on a card; it names the first one.
  static Status check(const wire::ParameterSet& set);
  // REQUIRES: the set passes check(); set and device outlive the tables. `vocabularies` has, by
  // parameter, a bound of all ids, or 0 without a bound. kResource: as CardTable::start().
  static Result<std::unique_ptr<CardTables>> create(const wire::ParameterSet& set,
                                                    device::ComputeStream compute,
                                                    std::span<const std::uint64_t> vocabularies);

  // The functions of CardTable, for the tables of `rows` or for all.
  Status find(std::span<client::SparseRows> rows, CardTable::Reads reads);
  // False if any table has no room: then find() all.
  Result<bool> find_ahead(std::span<client::SparseRows> rows);
  Status update(std::span<const client::SparseRows> rows, float learning_rate);
  Status finish();
  Status save(snapshot::SnapshotWriter& writer);
  Status load(const snapshot::SnapshotReader& reader);
  std::map<std::uint32_t, client::TableTotals> totals() const;

 private:
  explicit CardTables(const wire::ParameterSet& set) : set_(set) {}
  CardTable* table_of(std::uint32_t parameter);

  const wire::ParameterSet& set_;
  std::vector<std::unique_ptr<CardTable>> tables_;
};

}  // namespace paddle::strategy
