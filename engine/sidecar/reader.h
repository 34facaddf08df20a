// Rows that a program reads without training: those of a snapshot, or of a running job.
#pragma once

#include <functional>
#include <memory>

#include "engine/client/connect.h"
#include "engine/sidecar/session.h"
#include "engine/snapshot/reader.h"

namespace paddle::sidecar {

using OpenSnapshot = std::function<Result<snapshot::SnapshotReader>()>;

// Both read an absent row as tests do, or, if a pull is not for a test, as training does: with its
// initial value. No row is ever made. Their hello() refuses tables from code.

// Loads all tables of the snapshot into this process. hello() adds "pass", "step" and "samples" of
// the snapshot. kResource: the rows need more than parameter_memory_bytes().
std::unique_ptr<Session> read_snapshot(OpenSnapshot open);

// Pulls rows from the pservers of a job; see client::RowReader. hello() waits until the job has
// values, and adds its "pass" and "step" at that moment. Values of tests are the averages that the
// optimizer keeps.
std::unique_ptr<Session> read_job(client::ConnectOptions options);

}  // namespace paddle::sidecar
