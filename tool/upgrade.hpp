// Whether an upgrade of this machine's nginx waits for the module.
#pragma once

#include "findings.hpp"

namespace sliding_log::tool {

/// Asks the program that a package of the module for one nginx has brought; without it there is nothing to find.
void inspectUpgrade(Findings& findings);

}  // namespace sliding_log::tool
