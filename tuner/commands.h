/* The commands of the program, one function each (commands.def). */
#ifndef SPT_COMMANDS_H
#define SPT_COMMANDS_H

#define SPT_COMMAND(name, function, help) int function(int argc, char **argv);
#include "commands.def"
#undef SPT_COMMAND

#endif
