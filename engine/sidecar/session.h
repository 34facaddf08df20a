// The subject of a program's requests: a job that it trains, or rows that it only reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/client/batch_parameters.h"

namespace paddle::sidecar {

struct TableShape {
  std::string name;
  std::uint64_t width = 0;  // floats of a row
};

// One thread makes all calls, except for interrupt() and waiting().
class Session {
 public:
  virtual ~Session() = default;

  // Opens or joins. `code`: the text of tables that the program gives, or "". Returns the fields of
  // the answer, without "tables". May be called again after an error.
  virtual Result<JsonObject> hello(const std::string& code) = 0;
  // The tables in the order of `rows` of pull(). Empty before hello() has succeeded.
  virtual std::span<const TableShape> tables() const = 0;
  // Reads rows: one entry for every table, in order, with sorted and unique ids; most may be empty.
  // The values go where SparseRows::make_values() says. `is_test`: as tests read, which makes no
  // row.
  virtual Status pull(std::span<client::SparseRows> rows, bool is_test) = 0;
  virtual Result<JsonObject> leave() = 0;

  // Makes the waiting call and later ones fail. Any thread may call it.
  virtual void interrupt(const Error& why) = 0;
  // The cause for which a call waits: "trainers 1, 3 to push step 7"; "": it does not wait. Any
  // thread may call it.
  virtual std::string waiting() const { return {}; }
};

}  // namespace paddle::sidecar
