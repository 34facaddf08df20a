// A program of the user's own that trains a table on pservers, with the Python module beside it.
#pragma once

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace paddle::test {

// Writes job.toml, the program and the module into the workspace. A learning rate that is set on
// the command line, 0.5, gives "user 3 is -1.5".
inline void write_tables_program(const TemporaryFolder& workspace) {
  workspace.write("job.toml",
                  "[trainer]\ncommand = [\"/usr/bin/python3\", \"tables.py\"]\n"
                  "[[table]]\nname = \"user\"\nwidth = 2\ninitial_std = 0\n"
                  "[optimizer]\nmethod = \"sgd\"\nlearning_rate = 1.0\n");
  workspace.write("tables.py",
                  "import numpy as np, paddlectl as pd\n"
                  "with pd.join() as job:\n"
                  "    for batch in range(3):\n"
                  "        rows = job.pull('user', [3, 9])\n"
                  "        job.push({'user': (rows, np.ones_like(rows.values))}, samples=2)\n"
                  "    print('user 3 is', job.pull('user', [3]).values[0, 0], flush=True)\n"
                  "    job.finish_pass()\n"
                  "    job.save()\n");
  std::filesystem::copy(PYTHON_MODULE, workspace / "paddlectl",
                        std::filesystem::copy_options::recursive);
}

}  // namespace paddle::test
