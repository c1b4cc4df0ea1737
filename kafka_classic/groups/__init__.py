"""Groups whose members and offsets a broker keeps: the rules, without sockets, clocks or greenlets."""
