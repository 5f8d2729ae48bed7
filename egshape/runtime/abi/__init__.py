"""What compiled code and the runtime must spell alike: words of tables, codes, what memory keeps to.

The compiler imports them from here, since the runtime stands alone: it runs without the compiler."""
