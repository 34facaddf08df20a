// All sparse tables of a job whose only trainer has them in the memory of its card.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/strategy/card/card_table.h"

namespace paddle::strategy {

class CardTables {
 public:
  // kUsage: of the first table that cannot be on a card, why, and the way out.
  static Status check(const wire::ParameterSet& set);
  // Of a set that passes check(), which outlives the tables as the device does. By parameter, all
  // ids are below a vocabulary; 0: they are any. kResource: as CardTable::start().
  static Result<std::unique_ptr<CardTables>> create(const wire::ParameterSet& set,
                                                    device::Lane lane,
                                                    std::span<const std::uint64_t> vocabularies);

  // As CardTable's, for the tables of `rows`.
  Status find(std::span<client::SparseRows> rows, CardTable::Reads reads);
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
