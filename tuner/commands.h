/* The commands of the program, one function each (commands.def). */
#ifndef SPT_COMMANDS_H
#define SPT_COMMANDS_H

#define SPT_COMMAND(name, function, help) int function(int argc, char **argv);
#include "commands.def"
#undef SPT_COMMAND

/* spectune prove OPERATOR: what spt_cmd_prove leaves to it. */
int spt_cmd_prove_operator(int argc, char **argv);

/* spectune pack make: what spt_cmd_pack leaves to it. */
int spt_cmd_pack_make(int argc, char **argv);

#endif
