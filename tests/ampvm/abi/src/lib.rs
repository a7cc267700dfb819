//! The page that the asymmetric VM's plugin, its guest module and the host share.
