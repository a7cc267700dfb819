// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * Devices that stay awake while the guest suspends.
 *
 * Problem
 * The guest's files are the host's, over a virtio device. Its driver has no
 * code for suspend: the kernel resets the device, and no file is readable
 * afterwards.
 *
 * Approach
 * Make the kernel skip QEMU's own devices when it suspends devices. It still
 * suspends the others, the CPUs and the core of the system.
 *
 * Limits
 * The module never undoes this, because nothing in the guest needs that.
 */
#include <linux/pci.h>

#include "amp.h"

void amp_sleep_keep_files(void)
{
	struct pci_dev *dev = NULL;

	while ((dev = pci_get_device(PCI_VENDOR_ID_REDHAT_QUMRANET, PCI_ANY_ID, dev)))
		dev_pm_syscore_device(&dev->dev, true);
}
